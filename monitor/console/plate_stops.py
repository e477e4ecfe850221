"""Where a plate was seen, stop by stop (pure): the way of any plate, watched or not.

In: records of one plate. Out: stops in the order of capture, numbered. Never: a store, a rule; a
record that was read only in part taken for the plate without saying so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bus.domain.plates import is_whole, plate_form
from ingest.store.port import RecordRow


@dataclass(frozen=True, slots=True)
class PlateStop:
    """Records one after another at one checkpoint. `forms`: of those that fit the plate but were
    read only in part or are doubtful; `is_by_arrival`: the clock of a device was not known, so the
    place of the stop in the order is that of an arrival."""

    number: int
    checkpoint_id: str
    first_ms: int
    last_ms: int
    record_ids: tuple[str, ...]
    forms: tuple[str, ...]
    is_by_arrival: bool


def stops_of(rows: Sequence[RecordRow]) -> list[PlateStop]:
    """The oldest first, whatever the order of the rows."""
    ordered = sorted(rows, key=lambda row: (row.captured_at_ms, row.record_id))
    groups = groupby(ordered, key=lambda row: row.checkpoint_id)
    return [_stop(number, list(group)) for number, (_, group) in enumerate(groups, 1)]


def _stop(number: int, rows: list[RecordRow]) -> PlateStop:
    forms = (plate_form(row.plate_number) for row in rows)
    return PlateStop(
        number=number,
        checkpoint_id=rows[0].checkpoint_id,
        first_ms=rows[0].captured_at_ms,
        last_ms=rows[-1].captured_at_ms,
        record_ids=tuple(row.record_id for row in rows),
        forms=tuple(dict.fromkeys(form for form in forms if not is_whole(form))),
        is_by_arrival=any(row.is_ordered_by_arrival for row in rows),
    )
