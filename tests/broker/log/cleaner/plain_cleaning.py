"""What a cleaning must leave, found by a plain loop over all batches and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.log.cleaner.model import CleaningPass
from bus.records.batch import BatchHeader
from bus.records.control import ControlType, control_type
from bus.records.record import Record
from tests.broker.log.cleaner.table_log import TableBatch


class LeftBatch(NamedTuple):
    """What is to be left of a batch; ``horizon_ms`` as it is then."""

    header: BatchHeader
    records: tuple[Record, ...] | None
    horizon_ms: int | None


def control_kind(batch: TableBatch) -> ControlType | None:
    if not batch.header.is_control or not batch.records:
        return None
    return control_type(batch.records[0].key)


def ended_by(batches: Sequence[TableBatch]) -> list[int | None]:
    """For each batch of data of a transaction the index of the marker after it."""
    next_marker: dict[int, int] = {}
    ends: list[int | None] = [None] * len(batches)
    for at in range(len(batches) - 1, -1, -1):
        header = batches[at].header
        if control_kind(batches[at]) in (ControlType.ABORT, ControlType.COMMIT):
            next_marker[header.producer_id] = at
        elif header.is_transactional and not header.is_control:
            ends[at] = next_marker.get(header.producer_id)
    return ends


def is_aborted(batches: Sequence[TableBatch], end: int | None) -> bool:
    return end is not None and control_kind(batches[end]) is ControlType.ABORT


def left_of(
    batches: Sequence[TableBatch], cleaning: CleaningPass, map_end: int
) -> list[LeftBatch]:
    """The batches of the whole log after a pass whose map knew the keys below ``map_end``."""
    ends = ended_by(batches)
    newest = newest_offsets(batches, cleaning.first_dirty_offset, map_end)
    needed = {end for end in ends if end is not None}
    group_ends = [
        [s for s in group if s.base_offset < map_end][-1].end_offset
        for group in cleaning.groups
        if group[0].base_offset < map_end
    ]
    cleaned_to = group_ends[-1] if group_ends else 0
    last_of_groups = {
        max((b.header.last_offset for b in batches if b.header.last_offset < end), default=-1)
        for end in group_ends
    }
    left = []
    for at, batch in enumerate(batches):
        header = batch.header
        if header.base_offset >= cleaned_to:
            left.append(LeftBatch(header, batch.records, header.delete_horizon_ms))
            continue
        is_free = header.is_control and (
            header.records_count == 0
            or (control_kind(batch) in (ControlType.ABORT, ControlType.COMMIT) and at not in needed)
        )
        horizon_ms = header.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= cleaning.now_ms
        loses_all = (is_free and is_over) or (
            not header.is_control and header.is_transactional and is_aborted(batches, ends[at])
        )
        if loses_all:
            records: tuple[Record, ...] | None = ()
        elif batch.records is None or header.is_control:
            records = batch.records
        else:
            records = tuple(
                one for one in batch.records if stays(one, newest, map_end, is_over=is_over)
            )
        if records is None or records:
            has_tombstone = records is not None and not header.is_control and any(
                one.value is None for one in records
            )
            if horizon_ms is None and (has_tombstone or is_free):
                horizon_ms = cleaning.now_ms + cleaning.delete_retention_ms
            left.append(LeftBatch(header, records, horizon_ms))
        elif header.last_offset in last_of_groups or is_newest(header, cleaning):
            left.append(LeftBatch(header, (), None))
    return left


def newest_offsets(
    batches: Sequence[TableBatch], start: int, map_end: int
) -> dict[bytes, int]:
    """The newest offset of each key in [start, map_end), but for aborted data."""
    ends = ended_by(batches)
    return {
        bytes(record.key): record.offset
        for at, batch in enumerate(batches)
        if not batch.header.is_control and not is_aborted(batches, ends[at])
        for record in batch.records or ()
        if record.key is not None and start <= record.offset < map_end
    }


def stays(record: Record, newest: dict[bytes, int], map_end: int, *, is_over: bool) -> bool:
    if record.offset >= map_end:
        return True
    if record.key is None:
        return False
    return record.offset >= newest.get(bytes(record.key), -1) and not (
        record.value is None and is_over
    )


def is_newest(header: BatchHeader, cleaning: CleaningPass) -> bool:
    """Whether a batch has the last sequence of a producer, or its epoch."""
    for one in cleaning.producers:
        if one.producer_id == header.producer_id >= 0:
            if one.last_data_offset >= 0:
                return header.last_offset == one.last_data_offset
            return header.is_control and header.producer_epoch == one.epoch
    return False
