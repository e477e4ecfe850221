"""What the ways into the code name is there: files, and functions, classes and methods in them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from deploy.paths import PACKAGES, PROJECT_ROOT

DOCS = PROJECT_ROOT / "docs"
DECISIONS = DOCS / "decisions"
ARCHITECTURE = DOCS / "ARCHITECTURE.md"
KAFKA_PEOPLE = DOCS / "for_kafka_people.md"
CONTRIBUTING = PROJECT_ROOT / "CONTRIBUTING.md"
WAYS_IN = (ARCHITECTURE, KAFKA_PEOPLE, CONTRIBUTING)
"""On these pages the names behind a path are names of that file."""

TOP = (*PACKAGES, "tests", "docs")
PAGES = (
    CONTRIBUTING,
    *sorted(DOCS.rglob("*.md")),
    *(page for top in (*PACKAGES, "tests") for page in sorted((PROJECT_ROOT / top).rglob("README.md"))),
)

SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?:{'|'.join(TOP)})(?:/[\w.-]+)+/?")
NAMED = re.compile(r"`([\w/]+\.py)`(?: \| | )((?:`[A-Za-z_][\w.]*`(?:, )?)+)")
STEP = re.compile(rf"\d+\. {NAMED.pattern}")
OTHER_WALK = "The broker: the walk of a produced batch."
WALKS, STEPS, ROWS = 6, 95, 60


@cache
def defined(path: Path) -> frozenset[str]:
    """`function`, `Class`, `Class.method` and `CONSTANT`, as the top level of a file has them."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names |= _names(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for part in node.body for name in _names(part)}
    return frozenset(names)


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


def lines_of(page: Path) -> str:
    """The page with each paragraph, list item and table row on one line."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"\n(?!\n| *(?:\||\d+\.|[-*#]) ?)\s*", " ", text)


def named(page: Path) -> list[tuple[str, str]]:
    """(path, name) for each name that follows a path."""
    found = NAMED.findall(lines_of(page))
    return [(path, name) for path, names in found for name in SPAN.findall(names)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    """Whole paths from the root, in backticks."""
    spans = {span for span in SPAN.findall(page.read_text("utf-8")) if PATH.fullmatch(span)}
    assert sorted(span for span in spans if not (PROJECT_ROOT / span).exists()) == []


@pytest.mark.parametrize("page", WAYS_IN, ids=lambda page: page.name)
def test_every_name_behind_a_path_is_defined_in_that_file(page: Path) -> None:
    """Functions, classes, methods and constants, by the syntax tree."""
    found = named(page)
    missing = [
        f"{path} {name}"
        for path, name in found
        if not (PROJECT_ROOT / path).is_file() or name not in defined(PROJECT_ROOT / path)
    ]
    assert missing == []
    assert len(found) > 20


def test_each_step_of_a_walk_begins_with_a_file_and_a_name() -> None:
    """A step that names nothing cannot be followed."""
    text = lines_of(ARCHITECTURE)
    walks = re.findall(r"^## Walk: .*?(?=^## )", text, re.DOTALL | re.MULTILINE)
    steps = [step for walk in walks for step in re.findall(r"^\d+\. .*", walk, re.MULTILINE)]
    assert [s for s in steps if not STEP.match(s) and OTHER_WALK not in s] == []
    assert len(walks) == WALKS
    assert len(steps) > STEPS


def test_the_table_for_kafka_people_is_long_and_each_row_names_code_or_says_there_is_none() -> None:
    """Apache Kafka's class | our file | our name | what differs."""
    rows = [line for line in KAFKA_PEOPLE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [row for row in rows if "| – | – |" not in row and not NAMED.search(row)] == []
    assert len(rows) >= ROWS


def test_every_decision_stands_in_the_list_of_decisions() -> None:
    """The list explains the numbers that are not there."""
    text = (DECISIONS / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DECISIONS.glob("0*.md") if f"({page.name})" not in text] == []


def test_a_name_that_is_not_there_is_found(tmp_path: Path) -> None:
    """A test that cannot fail says nothing."""
    page = tmp_path / "page.md"
    page.write_text("1. `bus/runtime/tasks.py` `spawn`,\n   `no_such_name` – text\n   that goes on\n")
    assert named(page) == [("bus/runtime/tasks.py", "spawn"), ("bus/runtime/tasks.py", "no_such_name")]
    found = defined(PROJECT_ROOT / "bus/runtime/tasks.py")
    assert {"spawn", "TaskSupervisor.fail", "FAILED_STATUS"} <= found
    assert "no_such_name" not in found
