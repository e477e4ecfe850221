"""Whoever asks a store in API or pages asks through `QuestionPort`, or is on this list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from deploy.paths import PROJECT_ROOT

STORES = {"records", "alarms", "previews"}
NAMES_NOBODY = {
    ("monitor/api/charts.py", "records"): "sums by minute",
    ("monitor/api/cases.py", "alarms"): "whether a case has any alarm that the asker may see",
    ("monitor/api/evidence.py", "records"): "the record of an alarm that was asked for by the port",
    ("monitor/api/incidents.py", "alarms"): "incidents of the platform",
    ("monitor/api/records.py", "records"): "one record that is opened by its id; rejected ones",
    ("monitor/api/alarm_life.py", "alarms"): "states of alarms by their ids; shares of false ones",
    ("monitor/api/alarms.py", "alarms"): "one alarm that is opened by its id",
    ("monitor/api/kpis.py", "records"): "sums of today",
    ("monitor/console/pages/detail.py", "records"): "one record that is opened by its id",
    ("monitor/console/pages/detail.py", "alarms"): "one alarm that is opened by its id",
    ("monitor/console/pages/latency.py", "records"): "sums by minute",
    ("monitor/console/pages/quality.py", "records"): "sums by minute",
}
"""File and store: what it reads that names nobody who was not shown before."""


def asked(tree: ast.AST) -> Iterator[str]:
    """The stores of whose pools `run` is called or handed on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "run" and isinstance(node.value, ast.Attribute):
            name = node.value.attr.lstrip("_")
            if name in STORES:
                yield name


def test_nobody_asks_a_store_beside_the_port() -> None:
    found = {
        (str(path.relative_to(PROJECT_ROOT)), store)
        for folder in ("monitor/api", "monitor/console")
        for path in Path(PROJECT_ROOT, folder).rglob("*.py")
        for store in asked(ast.parse(path.read_text()))
    }
    assert found == set(NAMES_NOBODY)


def test_the_search_finds_a_call_on_a_pool() -> None:
    tree = ast.parse("async def f(view): return await view.services.records.run(lambda r: r.count(q))")
    assert list(asked(tree)) == ["records"]
