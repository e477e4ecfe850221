"""Batches of another cluster in a mirrored partition's log."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from broker.config.views import TopicConfig
from broker.log.errors import LogError
from broker.log.flush_state import PendingFlush
from broker.log.log import Log
from broker.log.mirrored import append_mirrored
from broker.log.validation import AppendInfo
from bus.errors import ErrorCode
from bus.records.batch import BatchHeader, assign, iter_batches
from bus.records.build import build_batch
from bus.records.control import end_txn_marker

NOW_MS = 1_760_000_000_000
EPOCH = 7
A_LONG_WAY = 1 << 31
MakeLog = Callable[..., Log]
Batch = Callable[..., bytearray]


def at(offset: int, batch: bytearray, epoch: int = 3) -> bytes:
    """The batch as the source has it."""
    assign(batch, 0, offset, epoch)
    return bytes(batch)


def put(log: Log, data: bytes, base_offset: int | None = None) -> AppendInfo:
    base = log.end_offset if base_offset is None else base_offset
    return append_mirrored(log, data, base_offset=base, leader_epoch=EPOCH, now_ms=NOW_MS)


def without_epochs(data: bytes) -> bytes:
    plain = bytearray(data)
    for position, header in list(iter_batches(plain)):
        assign(plain, position, header.base_offset, 0)
    return bytes(plain)


def content(log: Log) -> bytes:
    """All batches, from segment to segment."""
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 30).data)
        found += data
        offset = [header for _, header in iter_batches(data)][-1].end_offset
    return found


def state(log: Log) -> tuple[object, ...]:
    producers = [
        (one.producer_id, one.epoch, one.last_sequence, one.transaction_first_offset)
        for one in log.producers.active()
    ]
    aborted = log.aborted_transactions(0, log.end_offset)
    return log.end_offset, log.size_bytes, content(log), sorted(producers), aborted


def marker(producer_id: int, *, commit: bool) -> bytearray:
    return end_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=2, coordinator_epoch=4,
        timestamp_ms=NOW_MS,
    )  # fmt: skip


def transactions(batch: Batch) -> bytes:
    """An aborted transaction, a committed one and the begin of a third, with holes."""
    of = {"is_transactional": True, "producer_epoch": 2}
    return b"".join(
        (
            at(5, batch(3, producer_id=10, base_sequence=0, **of)),
            at(8, batch(2, producer_id=11, base_sequence=0, **of)),
            at(12, marker(10, commit=False)),
            at(13, marker(11, commit=True)),
            at(20, batch(4, producer_id=10, base_sequence=3, **of)),
        )
    )


def test_batches_keep_their_bytes_but_for_the_leader_epoch(make_log: MakeLog, batch: Batch) -> None:
    """Offsets with holes, producers, transactions and control batches as they are."""
    log, sent = make_log(), transactions(batch)
    put(log, sent)
    held = content(log)
    assert without_epochs(held) == without_epochs(sent)
    assert {header.partition_leader_epoch for _, header in iter_batches(held)} == {EPOCH}
    assert log.end_offset == 24
    assert log.leader_epochs.latest == EPOCH


def test_the_same_producers_and_transactions_as_at_a_follower_of_the_source(
    make_log: MakeLog, batch: Batch
) -> None:
    """Also after the log was opened again: an open transaction bounds read_committed consumers,
    the aborted one is in the index."""
    sent = transactions(batch)
    follower = make_log()
    follower.append_as_follower(sent, NOW_MS)
    expected = [(entry.first_offset, entry.last_offset) for entry in
                follower.aborted_transactions(0, 100)]  # fmt: skip
    before = {one.producer_id: one.transaction_first_offset for one in follower.producers.active()}
    follower.truncate_fully_and_start_at(0, NOW_MS)
    log = follower
    put(log, sent)
    for _ in range(2):
        log.advance_high_watermark(log.end_offset)
        assert [(e.first_offset, e.last_offset) for e in log.aborted_transactions(0, 100)] == expected
        assert expected == [(5, 12)]
        held = {one.producer_id: one.transaction_first_offset for one in log.producers.active()}
        assert held == before
        assert log.last_stable_offset == 20
        log.close()
        log = make_log()


def test_the_settings_of_the_topic_do_not_touch_the_batches(
    make_log: MakeLog, batch: Batch
) -> None:
    """Timestamp type and bounds, the largest batch, the codec, the rules of a compacted topic, and
    segment.bytes, which a larger batch exceeds."""
    log = make_log(
        log_append_time=True, max_message_bytes=100, codec=4, compacted=True, segment_bytes=300,
        message_timestamp_after_max_ms=0, message_timestamp_before_max_ms=0,
        mirror_source_cluster_id="there",
    )  # fmt: skip
    sent = at(0, batch(20, size=50, key=None, timestamp_ms=1_000))
    later = at(40, build_batch([], base_timestamp=NOW_MS, last_offset_delta=9))
    put(log, sent)
    put(log, later)
    assert without_epochs(content(log)) == without_epochs(sent + later)
    assert log.end_offset == 50


def test_records_are_taken_at_the_logs_end_only(make_log: MakeLog, batch: Batch) -> None:
    """Neither below nor beyond: the second of two requests is no hole when the first is lost."""
    log = make_log()
    put(log, at(0, batch(10)))
    for base in (0, 9, 11, -1):
        with pytest.raises(LogError) as caught:
            put(log, at(20, batch(1)), base)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.end_offset == 10
    put(log, at(20, batch(1)), 10)
    assert log.end_offset == 21


def test_a_producer_is_refused_on_a_mirrored_topic_until_it_is_none(
    make_log: MakeLog, batch: Batch
) -> None:
    """With the error after which clients retry, and why."""
    log = make_log()
    log.reconfigure(replace(TopicConfig(), mirror_source_cluster_id="there"))
    with pytest.raises(LogError, match="mirrored from cluster there and read-only") as caught:
        log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    put(log, at(0, batch(1)))
    log.reconfigure(TopicConfig())
    assert log.append(batch(1), leader_epoch=0, now_ms=NOW_MS).base_offset == 1


def _flushed(log: Log) -> PendingFlush:
    pending = log.begin_flush()
    log.flush()
    return pending


@pytest.mark.parametrize("start", [0, 12])
def test_holes_wider_than_a_segments_offsets_are_kept(
    make_log: MakeLog, batch: Batch, start: int
) -> None:
    """The batch behind one begins a segment, whose index could not name it otherwise. It counts once
    it is flushed, and is found again after a restart, by offset and by recovery."""
    log = make_log(index_interval_bytes=1)
    log.truncate_fully_and_start_at(start, NOW_MS)
    offsets = [start + A_LONG_WAY, start + A_LONG_WAY + 10, start + 3 * A_LONG_WAY]
    if start:
        offsets.insert(0, start)
    sent = [at(offset, batch(2)) for offset in offsets]
    for one, offset in zip(sent, offsets, strict=True):
        is_far = offset + 1 - log.end_offset >= A_LONG_WAY - 1
        put(log, one)
        assert log.needs_flush == is_far
        log.mark_flushed(_flushed(log), NOW_MS)
        assert not log.needs_flush
    for clean in (False, True):
        assert without_epochs(content(log)) == without_epochs(b"".join(sent))
        for offset in offsets:
            found = next(iter_batches(log.read(offset + 1, 1).data))[1]
            assert found.base_offset == offset
        found = next(iter_batches(log.read(offsets[-1] - 5, 1).data))[1]
        assert found.base_offset == offsets[-1]
        log.close()
        log = make_log(
            index_interval_bytes=1, clean=clean, log_start_offset=start,
            recovery_point=log.recovery_point,
        )  # fmt: skip
    with pytest.raises(LogError) as caught:
        end = log.end_offset
        put(log, at(end, batch(1)) + at(end + A_LONG_WAY, batch(1)))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_no_broken_request_changes_the_log(
    make_log: MakeLog, batch: Batch, dice: random.Random
) -> None:
    """A flipped bit, a cut, batches out of order, repeated or garbage: a typed refusal and the log
    as before, or (a bit outside the CRC) a batch that is appended as a whole."""
    log = make_log()
    put(log, at(0, batch(3, producer_id=10, producer_epoch=2, base_sequence=0)))
    before = state(log)
    refused = 0
    for _ in range(400):
        end = log.end_offset
        good = [
            at(end + hole, batch(count, producer_id=10, producer_epoch=2, base_sequence=9))
            for hole, count in ((0, 2), (3, 1), (4, 5))
        ]
        data = bytearray(b"".join(_spoilt(good, dice)))
        if dice.random() < 0.7 and data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            del data[dice.randrange(len(data) + 1) :]
        if not data:
            continue
        try:
            put(log, bytes(data))
        except LogError:
            refused += 1
            assert state(log) == before
        else:
            check_offsets(log, end)
            log.truncate_to(end, NOW_MS)
            assert state(log)[:3] == before[:3]
            before = state(log)
    assert refused > 100


def _spoilt(batches: list[bytes], dice: random.Random) -> list[bytes]:
    way = dice.randrange(5)
    if way == 0:
        return dice.sample(batches, 3)
    if way == 1:
        return [*batches, batches[-1]]
    if way == 2:
        return [dice.randbytes(dice.randrange(200))]
    return batches[: 1 + way % 3]


def check_offsets(log: Log, end: int) -> None:
    headers: list[BatchHeader] = [header for _, header in iter_batches(content(log))]
    for one, following in pairwise(headers):
        assert one.end_offset <= following.base_offset
    assert headers[-1].end_offset == log.end_offset > end
