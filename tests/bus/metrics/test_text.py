"""Pages of metrics have no series that says only when a counter began."""

from __future__ import annotations

import ast
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram

from bus.metrics.text import metrics_text
from deploy.paths import PACKAGES, PROJECT_ROOT


def test_a_page_has_no_series_of_beginnings() -> None:
    """They were half of the edge's page."""
    registry = CollectorRegistry()
    Counter("databus_c", "c", ["kind"], registry=registry).labels("a").inc()
    Histogram("databus_h", "h", registry=registry).observe(1)
    text = metrics_text(registry).decode()
    assert 'databus_c_total{kind="a"} 1.0' in text
    assert "databus_h_count 1.0" in text
    assert "_created" not in text


def test_every_page_is_written_in_one_place() -> None:
    """Nobody else asks the library for its text, in which they are."""
    found = [
        str(path.relative_to(PROJECT_ROOT))
        for package in PACKAGES
        for path in sorted(Path(PROJECT_ROOT, package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and any(a.name == "generate_latest" for a in node.names)
    ]
    assert found == ["bus/metrics/text.py"]
