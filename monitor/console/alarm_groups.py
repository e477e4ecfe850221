"""Alarms of one question, grouped by their target. Pure.

In: rows as the API gives them, newest first. Out: a row for each target, that with the newest alarm
first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from monitor.console.rows import Row


def by_target(rows: Iterable[Row], place: str) -> list[Row]:
    """`place`: which of a row's names of a checkpoint is shown. A target is that of a case, where
    the rule names one, else a rule; `chosen` of a group: what the address says of its alarms."""
    found: dict[str, Row] = {}
    for row in rows:
        target = row["case_target"]
        chosen = {"case": row["case"], "target": target} if target else {"rule": row["rule_id"]}
        key = json.dumps(chosen, ensure_ascii=False)
        group = found.get(key)
        if group is None:
            group = found[key] = {
                "id": key,
                "chosen": chosen,
                "rule": target or row["rule_name"] or row["rule_id"],
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
