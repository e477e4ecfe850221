"""Alarms of one question, grouped by their target. Pure.

In: rows as the API gives them, newest first. Out: a row for each target, that with the newest alarm
first.
"""

from __future__ import annotations

from collections.abc import Iterable

from monitor.console.rows import Row


def by_target(rows: Iterable[Row], place: str) -> list[Row]:
    """`place`: which of a row's names of a checkpoint is shown."""
    found: dict[str, Row] = {}
    for row in rows:
        group = found.get(row["rule_id"])
        if group is None:
            group = found[row["rule_id"]] = {
                "id": row["rule_id"],
                "rule": row["rule_name"] or row["rule_id"],
                "severity": row["severity"],
                "plate": row["plate"],
                "count": 0,
                "open_count": 0,
                "newest": row["raised_at"],
                "place": row[place],
            }
        group["count"] += 1
        group["open_count"] += row["stage"] == "open"
    return list(found.values())
