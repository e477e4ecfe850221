"""What a record costs, as `databus bench` has measured it and docs/benchmarks.json keeps it.

In: the kept results. Out: `RecordCosts`, and where each of them comes from. Never: a measured
figure that is passed over, or a constant that is called measured.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from deploy.sizing.size import RecordCosts

FIGURES: Mapping[str, str] = {
    "broker_us": "cameras-4000-cpu",
    "edge_rate": "ingest-edge",
    "executor_us": "ingest-executors-us",
    "region_us": "ingest-regions-us",
    "store_bytes": "ingest-store-bytes",
    "broker_mb": "cluster-memory",
    "driver_mb": "ingest-memory",
}
"""Which figure of the bench measures which cost."""


def measured_costs(path: Path) -> tuple[RecordCosts, dict[str, str]]:
    """The costs, and by name the day on which one was measured; without the file, none was."""
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = {cost: results[figure] for cost, figure in FIGURES.items() if figure in results}
    values = {cost: round(statistics.median(row["runs"]["ours"]), 1) for cost, row in found.items()}
    days = {cost: str(row["measured"]) for cost, row in found.items()}
    return replace(RecordCosts(), **values), days


def sources(costs: RecordCosts, days: Mapping[str, str]) -> list[tuple[str, float, str]]:
    """Every cost, its value, and where it comes from."""
    return [
        (each.name, getattr(costs, each.name),
         f"measured {days[each.name]}" if each.name in days else "assumed: docs/sizing.md")
        for each in fields(costs)
    ]  # fmt: skip
