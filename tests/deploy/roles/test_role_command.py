"""`run ROLE` is read without the command line's libraries, and means the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.roles.role_command import RoleCommand, parse_role_command

TOO_LARGE_FOR_THE_WATCH = ("typer", "rich", "pyspark", "nicegui", "fastapi", "httpx", "numpy")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "edge"], RoleCommand("edge", None, [])),
        (["--set", "a.b=1", "--config", "x", "run", "edge", "--set=c.d=2"],
         RoleCommand("edge", "x", ["a.b=1", "c.d=2"])),
        (["run", "edge", "--data-dir", "/d"], RoleCommand("edge", None, ["site.data_dir=/d"])),
        (["run", "--help"], None), (["run"], None), (["up"], None), ([], None),
        (["run", "edge", "now"], None), (["run", "edge", "--what"], None),
    ],
)  # fmt: skip
def test_the_words_of_one_role_are_understood_and_all_others_left_alone(
    words: list[str], expected: RoleCommand | None
) -> None:
    """What is left alone goes to the whole command line, which says what is wrong."""
    assert parse_role_command(words) == expected


def test_a_wrong_role_and_a_wrong_setting_end_as_on_the_command_line(tmp_path: Path) -> None:
    """Status 1 and 2, one sentence each."""
    for words, status in ((["run", "wach"], 1), (["--set", "wach.x=1", "run", "watch"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path), *words],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, "watch" in done.stderr) == (status, True), done.stderr
        assert "Traceback" not in done.stderr


def test_the_watch_imports_neither_spark_nor_the_console_nor_a_command_line() -> None:
    """It has sixty megabytes."""
    program = (
        "import sys, deploy.__main__, deploy.roles.run, deploy.roles.watch_ports, monitor.watch.service\n"
        f"print([n for n in {TOO_LARGE_FOR_THE_WATCH!r} if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_ROOT, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
