"""Questions for the life of alarms: parts of what the reader of the operations store asks. SQLite.

In: filters, ids. Out: conditions, states. Never: a write. Where the file's writer has not made the
table yet (`has_passages_and_states`), nobody has acted on an alarm.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from bus.contracts.alarm_states import AlarmState, RuleVerdicts
from ingest.store.sqlite.plate_facets import Condition

UNFINISHED = "unfinished"
"""Of a stage: any but closed."""
_WITH = "alarm_id IN (SELECT alarm_id FROM alarm_states WHERE {})"
_WITHOUT = (
    "NOT EXISTS (SELECT 1 FROM alarm_states WHERE alarm_states.alarm_id = alarms.alarm_id AND {})"
)


def state_conditions(
    stage: str, owner: str, changed_from_ms: int, *, has_table: bool
) -> list[Condition]:
    """Of alarms; empty ones do not restrict."""
    if not has_table:
        raised: list[Condition] = [("raised_at_ms >= ?", [changed_from_ms])]
        return raised if stage in ("", "open", UNFINISHED) and not owner else [("0", [])]
    found: list[Condition] = []
    if stage == "open":
        found.append((_WITHOUT.format("stage != 'open'"), []))
    elif stage == UNFINISHED:
        found.append((_WITHOUT.format("stage = 'closed'"), []))
    elif stage:
        found.append((_WITH.format("stage = ?"), [stage]))
    if owner:
        found.append((_WITH.format("owner = ?"), [owner]))
    if changed_from_ms:
        changed = f"(raised_at_ms >= ? OR {_WITH.format('changed_at_ms >= ?')})"
        found.append((changed, [changed_from_ms, changed_from_ms]))
    return found


def states_of(db: sqlite3.Connection, alarm_ids: Sequence[str]) -> dict[str, AlarmState]:
    """By the id of the alarm."""
    marks = ", ".join("?" * len(alarm_ids))
    rows = db.execute(f"SELECT body FROM alarm_states WHERE alarm_id IN ({marks})", list(alarm_ids))
    states = [msgspec.json.decode(body, type=AlarmState) for (body,) in rows]
    return {one.alarm_id: one for one in states}


def verdicts(db: sqlite3.Connection) -> list[RuleVerdicts]:
    """Of each rule with judged alarms."""
    rows = db.execute(
        "SELECT rule_id, count(*), sum(verdict = 'false') FROM alarm_states WHERE verdict != ''"
        " GROUP BY rule_id"
    )
    return [RuleVerdicts(*row) for row in rows]
