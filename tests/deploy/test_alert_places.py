"""The page on who judges what names each kind of incident and each alert, where it is judged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from bus.contracts.alarms import IncidentKind
from deploy.paths import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "alerts.md"
KINDS = frozenset(get_args(IncidentKind))


def first_cells(heading: str) -> Iterator[str]:
    """The names in the first column of a section's table."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`(\w+)`", line.split("|")[1])


def kinds_written(paths: Iterator[Path]) -> set[str]:
    """Kinds of incidents that stand in these files as words of their own."""
    trees = (ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in paths)
    words = (node.value for tree in trees for node in tree if isinstance(node, ast.Constant))
    return {word for word in words if isinstance(word, str)} & KINDS


def test_what_the_page_gives_to_the_watch_is_judged_there() -> None:
    named = list(first_cells("The watch"))
    assert len(named) == len(set(named))
    assert set(named) == kinds_written((PROJECT_ROOT / "monitor" / "watch").glob("*.py"))


def test_every_other_kind_is_an_applications_and_one_is_of_both() -> None:
    applications = set(first_cells("The applications"))
    assert applications | set(first_cells("The watch")) == KINDS
    assert applications & set(first_cells("The watch")) == {"lost"}


def test_a_kind_of_an_application_is_written_where_the_page_says() -> None:
    """Each row names files; one of them makes incidents of that kind."""
    section = PAGE.read_text(encoding="utf-8").split("\n## The applications\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            kind, files = line.split("|")[1].strip(" `"), re.findall(r"`([\w/]+\.py)`", line)
            assert kind in kinds_written(PROJECT_ROOT / file for file in files), line


def test_every_alert_of_prometheus_is_on_the_page_once() -> None:
    (rules,) = (PROJECT_ROOT / "deploy").rglob("alerts.yml")
    alerts = re.findall(r"- alert: (\w+)", rules.read_text(encoding="utf-8"))
    assert sorted(first_cells("Prometheus")) == sorted(alerts)
