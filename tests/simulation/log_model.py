"""What one log should hold: the records that were written to it and not cut off.

In: what was written, committed, cut off. Out: what differs from a table that was read. Never: the
log itself (`one_log`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bus.records.batch import CONTROL, TRANSACTIONAL, iter_batches
from bus.records.control import ControlType, control_type
from bus.records.read import read_records


class ModelRecord(NamedTuple):
    """A record of the model; `producer_id` -1: of none."""

    offset: int
    key: str
    is_value: bool
    number: int
    producer_id: int
    is_transactional: bool


@dataclass(slots=True)
class SentBatch:
    """A batch of a producer, as it may be sent again."""

    data: bytes
    base_offset: int
    last_offset: int
    sequence: int
    count: int


@dataclass(slots=True)
class ModelProducer:
    """A producer and its newest batches, as far as they stand in the log."""

    producer_id: int
    batches: list[SentBatch] = field(default_factory=list)

    @property
    def next_sequence(self) -> int:
        last = self.batches[-1] if self.batches else None
        return 0 if last is None else last.sequence + last.count


class TableModel:
    """What was written and stands. Invariant: `records` are in the order of their offsets.

    `unsure`: of keys of which committed records were cut off, where: what these had replaced may be
    gone, and so nothing is known of what the key has before.
    """

    def __init__(self) -> None:
        self.records: list[ModelRecord] = []
        self.unsure: dict[str, int] = {}
        self.open_from = -1
        self.watermark = 0
        self.markers: dict[int, int] = {}
        """Where the transaction of a producer ended."""

    def reopen(self, offset: int) -> list[int]:
        """The log was cut there: transactions that ended behind it are open again. What they wrote
        is not known any more to be committed."""
        opened = [one for one, at in self.markers.items() if at >= offset]
        for producer_id in opened:
            del self.markers[producer_id]
            own = [one for one in self.records if one.producer_id == producer_id]
            self.unsure |= {one.key: offset for one in own}
            self.records = [one for one in self.records if one.producer_id != producer_id]
        return opened

    def newest(self, below: int | None = None) -> dict[str, ModelRecord]:
        """Of each key, of what is decided; below an offset, what is decided below it."""
        bound = 1 << 62 if below is None else below
        return {one.key: one for one in self.records if self._is_decided(one, bound)}

    def _is_decided(self, one: ModelRecord, bound: int) -> bool:
        if one.offset >= bound:
            return False
        if not one.is_transactional:
            return True
        # After a start a transaction that ended above the watermark does not hold the last stable
        # offset back, as in Apache Kafka; its marker is not read yet all the same.
        is_open = 0 <= self.open_from <= one.offset
        return not is_open and self.markers.get(one.producer_id, -1) < bound

    def add(self, made: list[ModelRecord]) -> None:
        self.records += made

    def decide(self, is_committed: bool) -> None:
        """The open transaction ends."""
        opened = self.open_from
        if not is_committed:
            self.records = [
                one for one in self.records if not (one.is_transactional and one.offset >= opened)
            ]
        self.open_from = -1

    def cut_from(self, offset: int) -> None:
        """What lies there or after it is gone."""
        gone = [one for one in self.records if one.offset >= offset]
        self.records = [one for one in self.records if one.offset < offset]
        self.unsure |= {one.key: offset for one in gone if one.offset < self.watermark}
        if self.open_from >= offset:
            self.open_from = -1

    def cut_below(self, offset: int) -> None:
        """What lies before it may be gone."""
        kept = self.newest()
        gone = {one.key for one in self.records if one.offset < offset}
        self.records = [one for one in self.records if one.offset >= offset]
        self.unsure |= {key: offset for key in gone if offset_of(kept.get(key)) < offset}

    def what_is_wrong(self, found: dict[str, ModelRecord], end_offset: int) -> Iterator[str]:
        newest = self.newest()
        for key in {*newest, *found}:
            if offset_of(newest.get(key)) < self.unsure.get(key, 0):
                continue
            wanted, here = newest.get(key), found.get(key)
            if wanted is None:
                yield f"{key} is {here}, and was never written or is deleted"
            elif here is None:
                if wanted.is_value:
                    yield f"{wanted} is lost"
            elif (here.number, here.is_value) != (wanted.number, wanted.is_value):
                yield f"{here} is there, {wanted} should be"


def fold(pieces: list[bytes], complain: Callable[[str], None]) -> dict[str, ModelRecord]:
    """A table after its batches in their order, as a reader of committed records has it."""
    found: dict[str, ModelRecord] = {}
    pending: dict[int, list[ModelRecord]] = {}
    end_offset, epoch = 0, -1
    for piece in pieces:
        for at, header in iter_batches(piece):
            if header.base_offset < end_offset or header.partition_leader_epoch < epoch:
                complain(f"offset {header.base_offset} after {end_offset}")
            end_offset, epoch = header.end_offset, header.partition_leader_epoch
            for record in read_records(piece, at):
                if header.attributes & CONTROL:
                    waiting = pending.pop(header.producer_id, [])
                    if control_type(record.key) is ControlType.COMMIT:
                        newer = [o for o in waiting if o.offset > offset_of(found.get(o.key))]
                        found |= {one.key: one for one in newer}
                    continue
                one = ModelRecord(
                    record.offset, bytes(record.key or b"").decode(), record.value is not None,
                    int(bytes(record.headers[0][1] or b"0")), header.producer_id,
                    bool(header.attributes & TRANSACTIONAL),
                )  # fmt: skip
                if one.is_transactional:
                    pending.setdefault(header.producer_id, []).append(one)
                else:
                    found[one.key] = one
    return found


def offset_of(one: ModelRecord | None) -> int:
    return -1 if one is None else one.offset
