"""Whole cleanings of drawn logs, against a plain loop over their records."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.log.cleaner.model import CleanerLimits, CleaningPass, PassResult
from broker.log.cleaner.offset_map import OffsetMap
from broker.log.txnindex import AbortedTransaction
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.control import ControlType, control_batch, end_txn_marker
from bus.records.record import Record
from tests.broker.log.cleaner.plain_cleaning import (
    LeftBatch,
    control_kind,
    ended_by,
    left_of,
    newest_offsets,
)
from tests.broker.log.cleaner.table_log import LIMITS, SETTINGS, TableBatch, TableLog

SEEDS = st.integers(0, 2**32 - 1)
"""Not st.randoms: what is drawn here is more than hypothesis keeps of one."""


class DrawnTable:
    """A log into which batches of all kinds are written by chance."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        sizes = {"segment_bytes": dice.choice([500, 3000, 50_000])}
        self.table = TableLog(replace(SETTINGS, **sizes))
        self.keys = dice.choice([3, 20, 200])
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.epoch = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self.epoch += self.dice.random() < 0.1
            kind = self.dice.random()
            if kind < 0.15 and self.open:
                self.put(self.marker(self.dice.choice(sorted(self.open))))
            elif kind < 0.18:
                self.put(control_batch(ControlType.LEADER_CHANGE, b"", timestamp_ms=self.now_ms))
            else:
                self.put(self.data())
            if self.dice.random() < 0.2:
                self.table.log.roll(self.now_ms)

    @property
    def now_ms(self) -> int:
        return self.table.now_ms

    def put(self, batch: bytearray) -> None:
        gap = self.dice.choice([0, 0, 0, 0, 3])
        self.table.put(batch, epoch=self.epoch, gap=gap)

    def end_transactions(self) -> None:
        for producer_id in sorted(self.open):
            self.put(self.marker(producer_id))

    def marker(self, producer_id: int) -> bytearray:
        self.open.discard(producer_id)
        return end_txn_marker(
            commit=self.dice.random() < 0.5, producer_id=producer_id, producer_epoch=1,
            coordinator_epoch=1, timestamp_ms=self.now_ms,
        )  # fmt: skip

    def data(self) -> bytearray:
        dice = self.dice
        count = dice.choice([1, 1, 2, 5, 30])
        records = [self.record() for _ in range(count)]
        producer: dict[str, Any] = {}
        producer_id = dice.choice([-1, -1, 5, 6, 7, 8])
        if producer_id >= 0:
            producer = {
                "producer_id": producer_id, "producer_epoch": 1,
                "base_sequence": self.sequences.get(producer_id, 0),
                "is_transactional": producer_id >= 7,
            }  # fmt: skip
            self.sequences[producer_id] = producer["base_sequence"] + count
            if producer_id >= 7:
                self.open.add(producer_id)
        return build_batch(
            records, compression=dice.choice(list(Compression)),
            log_append_time_ms=dice.choice([None, None, self.now_ms]), **producer,
        )  # fmt: skip

    def record(self) -> Record:
        dice = self.dice
        number = dice.randrange(self.keys)
        key = dice.choice([None, b"", *[b"key-%d" % number * (number % 40 + 1)] * 30])
        value = dice.choice([None, b"", dice.randbytes(dice.randrange(60))])
        headers = [("h", dice.choice([None, b"x"]))] * dice.choice([0, 0, 0, 2])
        return Record(key, value, headers, self.now_ms + dice.randrange(-50, 50))


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_what_stays_of_any_log_is_what_a_plain_loop_leaves(seed: int) -> None:
    """Several passes with time between them, tiny buffers, open transactions, holes in the
    offsets; the log is opened anew after each."""
    dice = random.Random(seed)
    drawn = DrawnTable(dice)
    table = drawn.table
    for _ in range(dice.randint(1, 4)):
        drawn.write(dice.randint(1, 40))
        if dice.random() < 0.7:
            drawn.end_transactions()
        table.settle()
        before = table.stored()
        limits = replace(
            LIMITS, dedupe_buffer_bytes=dice.choice([1 << 20, 1 << 20, 24 * 5, 24 * 40]),
            io_buffer_bytes=dice.choice([1, 5000, 1 << 19]),
        )  # fmt: skip
        cleaning = table.plan(limits)
        _, result = table.clean(limits)
        table.reopen()
        expected = left_of(before, cleaning, result.next_dirty_offset)
        check_left(table.stored(), expected)
        check_map(before, cleaning, result, limits)
        check_aborted(table, before)
        table.now_ms += dice.choice([-100, 0, 500, 1000, 5000])


def check_left(after: list[TableBatch], expected: list[LeftBatch]) -> None:
    """Batch by batch, but for those that only fill a hole at a group's end."""
    found = [one for one in after if one.header.records_count or one.header.producer_id >= 0 or any(
        one.header.last_offset == other.header.last_offset for other in expected)]  # fmt: skip
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for field in ("base_offset", "last_offset", "partition_leader_epoch", "producer_id",
                      "producer_epoch", "base_sequence", "is_control", "is_transactional",
                      "is_log_append_time"):  # fmt: skip
            assert getattr(one.header, field) == getattr(other.header, field), field
        assert one.records == other.records
        assert one.header.delete_horizon_ms == other.horizon_ms
        if other.records:
            assert one.header.compression == other.header.compression


def check_map(
    before: list[TableBatch], cleaning: CleaningPass, result: PassResult, limits: CleanerLimits
) -> None:
    """A map ends where it is full, and not before."""
    start, end = cleaning.first_dirty_offset, max(cleaning.end_offset, cleaning.first_dirty_offset)
    known = newest_offsets(before, start, result.next_dirty_offset)
    most = OffsetMap(limits.dedupe_buffer_bytes, limits.load_factor).max_keys
    assert (result.keys, result.max_keys) == (len(known), most)
    if result.next_dirty_offset < end:
        assert len(known) == most
        assert len(newest_offsets(before, start, result.next_dirty_offset + 1)) == most + 1
    else:
        assert result.next_dirty_offset == end
    assert not result.uncleanable


def check_aborted(table: TableLog, before: list[TableBatch]) -> None:
    """A reader of committed records skips what it skipped, of what is there still."""
    after = table.stored()
    ends = ended_by(after)
    needed = {(after[end].header.producer_id, after[end].header.last_offset)
              for end in ends if end is not None
              and control_kind(after[end]) is ControlType.ABORT}  # fmt: skip
    entries = table.log.aborted_transactions(0, table.log.end_offset)
    assert needed <= {(entry.producer_id, entry.last_offset) for entry in entries}
    for at, end in enumerate(ends):
        if end is not None:
            header = after[at].header
            is_skipped = any(covers(entry, header.producer_id, header.base_offset, header.last_offset)
                             for entry in entries)  # fmt: skip
            assert is_skipped == (control_kind(after[end]) is ControlType.ABORT)


def covers(entry: AbortedTransaction, producer_id: int, first: int, last: int) -> bool:
    return entry.producer_id == producer_id and entry.first_offset <= first and (
        last < entry.last_offset
    )
