"""A list of plates as people are shown it, and whether it is as new as it should be. Pure."""

from __future__ import annotations

import msgspec

from bus.contracts.plate_lists import ListRecord

_DAY_MS = 86_400_000


class ListInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A list of plates in force. `problem`: why its newest lines cannot be read."""

    record: ListRecord
    lines: int
    is_overdue: bool = False
    problem: str = ""


def due_ms(record: ListRecord) -> int:
    """When it has to be imported again; 0 for a list without an interval."""
    return record.renewed_at_ms + record.renewal_days * _DAY_MS if record.renewal_days else 0


def is_overdue(record: ListRecord, now_ms: int) -> bool:
    """Whether it was not imported again in its interval; a list without one never is."""
    return 0 < due_ms(record) < now_ms
