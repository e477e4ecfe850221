"""Offsets by time, against a search through all records."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

from broker.log import timestamps
from broker.log.batch_scanner import BatchScanner, ScannedBatch
from broker.log.log import Log
from broker.log.timestamps import (
    LARGEST,
    SearchPending,
    TimestampOffset,
    TimestampSearch,
)
from bus.records.batch import HEADER_BYTES, RecordsError, iter_batches, seal
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from tests.broker.log.lookups import first_at_or_after, with_largest_timestamp

NOW_MS = 1_760_000_000_000
MakeLog = Callable[..., Log]


@pytest.mark.parametrize("seed", range(15))
def test_the_first_record_at_or_after_a_time_is_found_inside_any_batch(
    make_log: MakeLog, seed: int
) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    log = make_log(
        segment_bytes=dice.choice([700, 1 << 30]), index_interval_bytes=dice.choice([0, 300, 4096])
    )
    records: list[tuple[int, int]] = []
    for _ in range(40):
        times = [NOW_MS - dice.randrange(0, 10_000) for _ in range(dice.randrange(1, 6))]
        data = build_batch(
            [Record(b"k", b"v", timestamp_ms=t) for t in times], compression=dice.randrange(5)
        )
        base = log.append(data, leader_epoch=3, now_ms=NOW_MS).base_offset
        records += [(t, base + i) for i, t in enumerate(times)]
    log.advance_high_watermark(log.end_offset)
    if dice.random() < 0.5:
        log.delete_records_before(dice.randrange(log.end_offset))
        records = [r for r in records if r[1] >= log.log_start_offset]
    for wanted in [0, NOW_MS + 1, *(NOW_MS - dice.randrange(0, 10_500) for _ in range(60))]:
        expected = next((r for r in records if r[0] >= wanted), None)
        found = first_at_or_after(log, wanted)
        assert (found and (found.timestamp_ms, found.offset)) == expected
        assert found is None or found.leader_epoch == 3
    if not any(log.log_start_offset > s.base_offset for s in log.segments.all):
        newest = max(t for t, _ in records)
        largest = with_largest_timestamp(log)
        assert largest is not None
        assert largest[:2] == next(r for r in records if r[0] == newest)


def test_an_empty_log_has_no_largest_timestamp(make_log: MakeLog) -> None:
    assert with_largest_timestamp(make_log()) is None
    assert first_at_or_after(make_log(), 0) is None


def test_with_log_append_time_the_batch_counts_not_the_records(make_log: MakeLog) -> None:
    log = make_log(log_append_time=True)
    for now_ms in (1000, 2000):
        data = build_batch([Record(b"k", b"v", timestamp_ms=7), Record(b"k", b"v", timestamp_ms=8)])
        log.append(data, leader_epoch=0, now_ms=now_ms)
    found = first_at_or_after(log, 1500)
    assert found is not None
    assert found[:2] == (2000, 2)


def test_after_deletion_the_largest_timestamp_is_that_of_what_remains(make_log: MakeLog) -> None:
    log = make_log()
    for t in (9000, 100, 300, 200):
        log.append(build_batch([Record(b"k", b"v", timestamp_ms=t)]), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(4)
    log.delete_records_before(1)
    found = with_largest_timestamp(log)
    assert found is not None
    assert found[:2] == (300, 2)


Found = tuple[TimestampOffset | None, list[int]]


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the batches that a look-up has passed over."""
    seen: list[int] = []
    pass_over = BatchScanner.pass_over

    def noted(self: BatchScanner, found: ScannedBatch) -> None:
        seen.append(found.header.base_offset)
        pass_over(self, found)

    monkeypatch.setattr(BatchScanner, "pass_over", noted)
    monkeypatch.setattr(timestamps, "HEADERS_PER_PIECE", 10)
    return seen


def in_pieces(search: TimestampSearch, headers: list[int]) -> Found:
    """What is found, and how many headers each piece has read."""
    pieces: list[int] = []
    while True:
        before = len(headers)
        try:
            found = search.next_piece()
        except SearchPending:
            pieces.append(len(headers) - before)
            continue
        return found, [*pieces, len(headers) - before]


def whose_largest_is_deleted(make_log: MakeLog, batches: int = 200) -> Log:
    """No index leads to what is the largest now."""
    log = make_log(segment_bytes=4000, index_interval_bytes=1 << 20)
    for t in (9000, *range(1, batches)):
        log.append(build_batch([Record(b"k", b"v", timestamp_ms=t)]), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)
    log.delete_records_before(1)
    return log


def test_a_look_up_that_has_to_read_all_headers_does_so_in_pieces(
    make_log: MakeLog, headers: list[int]
) -> None:
    """The loop serves others between two of them."""
    log = whose_largest_is_deleted(make_log)
    found, pieces = in_pieces(TimestampSearch(log, LARGEST), headers)
    assert found is not None
    assert found[:2] == (199, 199)
    assert max(pieces) <= 11
    assert len(pieces) > 10
    found, pieces = in_pieces(TimestampSearch(log, 3000), headers)
    assert (found, max(pieces) <= 11, len(pieces) > 3) == (None, True, True)


def test_of_records_with_the_same_largest_time_the_first_one_counts(make_log: MakeLog) -> None:
    """Though a later batch promises more, of which a part cannot be read."""
    log = make_log()
    batches = [[9000], [300], [100], [300, 500]]
    for times in batches:
        data = build_batch([Record(b"k", b"v", timestamp_ms=t) for t in times])
        if len(times) > 1:  # its last record is cut off
            del data[-5:]
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
            seal(data, 0, len(data))
        log.append(data, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)
    log.delete_records_before(1)
    assert with_largest_timestamp(log) == TimestampOffset(300, 1, 0)


@pytest.mark.parametrize("moment", range(0, 20, 3))
def test_a_log_that_is_cut_during_a_look_up_is_looked_through_again(
    make_log: MakeLog, headers: list[int], moment: int
) -> None:
    log = whose_largest_is_deleted(make_log)
    search = TimestampSearch(log, LARGEST)
    for _ in range(moment):
        with pytest.raises(SearchPending):
            search.next_piece()
    log.truncate_to(57, NOW_MS)
    found, _ = in_pieces(search, headers)
    assert found is not None
    assert found[:2] == (56, 56)


def unreadable(data: bytes, dice: random.Random) -> bytearray:
    """A batch whose header is right and whose records cannot be read: as a client may send it."""
    batch = bytearray(data)
    kind = dice.choice(["codec", "cut", "count", "tail"])
    if kind == "codec":  # says a codec that it is not
        batch[22] = (batch[22] & ~7) | dice.randrange(1, 5)
        batch[HEADER_BYTES:] = bytes(dice.randrange(256) for _ in range(40))
    elif kind == "cut":
        del batch[HEADER_BYTES + dice.randrange(len(batch) - HEADER_BYTES) :]
    elif kind == "count":  # more records than there are
        count = dice.randrange(50, 1 << 20)
        batch[57:61], batch[23:27] = count.to_bytes(4, "big"), (count - 1).to_bytes(4, "big")
    else:
        batch += bytes(dice.randrange(1, 9))
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    seal(batch, 0, len(batch))
    return batch


def readable(log: Log) -> list[tuple[int, int]]:
    """Timestamp and offset of every record that can be read, batch by batch."""
    found: list[tuple[int, int]] = []
    for segment in log.segments.all:
        data = segment.read_bytes(0, segment.size_bytes)
        for at, _ in iter_batches(data):
            with contextlib.suppress(RecordsError):
                for record in read_records(data, at):
                    found.append((record.timestamp_ms, record.offset))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_batches_that_cannot_be_read_hide_no_record_that_can_be(
    make_log: MakeLog, seed: int
) -> None:
    """Regression: a batch that says gzip and is not made each look-up that reached it fail with
    CORRUPT_MESSAGE, the one for the largest timestamp and a reset to a time among them."""
    print(f"seed={seed}")
    dice = random.Random(seed)
    log = make_log(segment_bytes=dice.choice([700, 1 << 30]), index_interval_bytes=0)
    for _ in range(30):
        times = [NOW_MS - dice.randrange(0, 10_000) for _ in range(dice.randrange(1, 6))]
        made = [Record(b"key", b"value", timestamp_ms=t) for t in times]
        data = build_batch(made, compression=dice.randrange(5))
        batch = unreadable(data, dice) if dice.random() < 0.4 else data
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)
    records = readable(log)
    for wanted in [0, *(NOW_MS - dice.randrange(0, 10_500) for _ in range(40))]:
        found = first_at_or_after(log, wanted)
        expected = next((one for one in records if one[0] >= wanted), None)
        assert (found and (found.timestamp_ms, found.offset)) == expected
    largest = with_largest_timestamp(log)
    newest = max(records, key=lambda one: (one[0], -one[1]), default=None)
    assert (largest and largest[:2]) == newest
