"""The documents are true: commands run, links lead somewhere, tables are complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.testing

from deploy.cli import app, mount_commands
from deploy.paths import PACKAGES, PROJECT_ROOT
from deploy.roles.table import ROLES

READMES = (PROJECT_ROOT / "README.md", PROJECT_ROOT / "README.zh.md")
PAGES = (
    *READMES, PROJECT_ROOT / "CONTRIBUTING.md",
    *sorted((PROJECT_ROOT / "docs").rglob("*.md")),
)  # fmt: skip
COMMAND = re.compile(r"\./databus((?: [a-z-]+)*)((?: --?[a-z-]+(?:[ =][0-9a-zA-Z.]+)?)*)")


@pytest.fixture(scope="module")
def command_line() -> typer.Typer:
    """The command line with all verbs, once."""
    mount_commands(app, lambda row: True)
    return app


def commands(path: Path) -> set[str]:
    return {" ".join(found.groups()).strip() for found in COMMAND.finditer(path.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_verb_and_option_that_a_page_shows_exists(page: Path, command_line: typer.Typer):
    """`--help` of each verb names each option the page uses."""
    tree = typer.main.get_command(command_line)
    for words in commands(page):
        command = tree
        for word in [word for word in words.split() if not word.startswith("-")]:
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"{page.name} shows ./databus {words}"
            command = command.commands[word]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for option in re.findall(r"(?<=\s)--[a-z-]+", " " + words):
            assert option in known, f"{page.name} shows ./databus {words}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_link_inside_the_repository_leads_somewhere(page: Path):
    """Links to files; addresses elsewhere are not followed."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def built_rows() -> list[list[str]]:
    """Rows of the page of seeds that are said to be done: their cells."""
    lines = (PROJECT_ROOT / "docs" / "from_the_seeds.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return [row for row in rows if row[1].startswith("done")]


@pytest.mark.parametrize("row", built_rows(), ids=lambda row: row[0])
def test_a_row_that_is_done_names_tests_that_are_there(row: list[str]):
    """Before, the page said of the second site what had not been true for weeks."""
    assert len(row) == 4, "no tests named"
    names = re.findall(r"`(tests/[^`]+)`", row[3])
    assert names
    for name in names:
        path = PROJECT_ROOT / name
        files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        assert any("def test_" in file.read_text() for file in files), name


def test_the_two_readmes_show_the_same_commands():
    """The Chinese page is a twin, not a cousin."""
    english, chinese = (commands(path) for path in READMES)
    assert english == chinese
    assert english


def test_the_two_pages_on_sending_show_the_same():
    """Chinese vendors read theirs: the same examples, statuses, reasons, topics and headers."""
    english, chinese = (
        (PROJECT_ROOT / "docs" / f"how-to-send{twin}.md").read_text() for twin in ("", ".zh")
    )
    block = re.compile(r"```.*?```", re.DOTALL)
    assert block.findall(english) == block.findall(chinese)
    word = re.compile(r"`([a-z][a-z0-9./=_-]+)`|^\| (?:([0-9]{3})|`([a-z-]+)`)", re.MULTILINE)
    assert set(word.findall(english)) == set(word.findall(chinese))


def test_the_architecture_names_every_package_and_every_process():
    """A new one is not forgotten."""
    text = (PROJECT_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert [package for package in PACKAGES if f"| `{package}/` |" not in text] == []
    assert [role for role in ROLES if f"| {role} |" not in text] == []


def test_the_quick_commands_of_the_readme_run(tmp_path: Path):
    """`config`, `status`, `down` and `--help`, as a person would type them."""
    for words in (["config"], ["status"], ["down"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path), *words],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout.strip()
