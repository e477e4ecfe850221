"""A list of plates as people are shown it. Pure."""

from __future__ import annotations

import msgspec

from bus.contracts.plate_lists import ListRecord


class ListInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A list of plates in force. `problem`: why its newest lines cannot be read."""

    record: ListRecord
    lines: int
    is_overdue: bool = False
    problem: str = ""
