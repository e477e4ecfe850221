"""Appending and reading one partition's log."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.validation import AppendOrigin
from bus.errors import ErrorCode
from bus.records.batch import HEADER_BYTES, check_crc, header_at, iter_batches
from bus.records.read import read_all

NOW_MS = 1_760_000_000_000
MakeLog = Callable[..., Log]
Batch = Callable[..., bytearray]


def put(log: Log, data: bytearray | bytes, epoch: int = 0, **more: object) -> int:
    return log.append(data, leader_epoch=epoch, now_ms=NOW_MS, **more).base_offset  # type: ignore[arg-type]


def refused(code: ErrorCode, log: Log, data: bytearray | bytes, **more: object) -> LogError:
    before = (log.end_offset, log.size_bytes)
    with pytest.raises(LogError) as caught:
        put(log, data, **more)  # type: ignore[arg-type]
    assert caught.value.code is code
    assert (log.end_offset, log.size_bytes) == before
    return caught.value


def test_batches_get_consecutive_offsets_and_the_leader_epoch_in_place(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    first, second = batch(3), batch(2)
    assert put(log, first, epoch=4) == 0
    assert put(log, second, epoch=4) == 3
    assert log.end_offset == 5
    data = bytes(log.read(0, 1 << 20).data)
    assert data == bytes(first) + bytes(second)
    assert [(h.base_offset, h.partition_leader_epoch) for _, h in iter_batches(data)] == [
        (0, 4),
        (3, 4),
    ]
    for at, _ in iter_batches(data):
        check_crc(data[at:])


def test_reading_inside_a_batch_gives_that_whole_batch(make_log: MakeLog, batch: Batch) -> None:
    log = make_log()
    put(log, batch(5))
    put(log, batch(5))
    assert header_at(log.read(7, 1 << 20).data).base_offset == 5


def test_reading_at_the_end_is_empty_and_beyond_it_out_of_range(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    put(log, batch(5))
    assert len(log.read(5, 100).data) == 0
    for offset in (6, -1):
        with pytest.raises(LogError) as caught:
            log.read(offset, 100)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_at_or_above_the_upper_offset_is_read(make_log: MakeLog, batch: Batch) -> None:
    log = make_log()
    for _ in range(4):
        put(log, batch(2))
    assert [h.base_offset for _, h in iter_batches(log.read(0, 1 << 20, upper_offset=4).data)] == [
        0,
        2,
    ]
    assert len(log.read(4, 1 << 20, upper_offset=4).data) == 0


def test_the_first_batch_comes_whole_however_small_the_limit(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    big = batch(1, size=5000)
    put(log, big)
    put(log, batch(1))
    assert bytes(log.read(0, 10).data) == bytes(big)
    assert bytes(log.read(0, 0).data) == bytes(big)
    assert len(log.read(0, 10, min_one=False).data) == 0


@pytest.mark.parametrize("seed", range(12))
def test_any_read_gives_whole_batches_from_the_asked_one_on(
    make_log: MakeLog, batch: Batch, seed: int
) -> None:
    """Against the list of batches as they were written, over many small segments."""
    print(f"seed={seed}")
    dice = random.Random(seed)
    log = make_log(
        segment_bytes=dice.choice([2000, 20_000, 1 << 30]),
        index_interval_bytes=dice.choice([0, 200, 4096]),
    )
    written: list[tuple[int, int, bytes]] = []
    for _ in range(120):
        data = batch(dice.randrange(1, 6), size=dice.randrange(0, 150))
        base = put(log, data)
        written.append((base, log.end_offset, bytes(data)))
        if dice.random() < 0.3:
            offset = dice.randrange(0, log.end_offset)
            upper = dice.choice([log.end_offset, dice.choice(written)[0]])
            limit = dice.choice([0, 50, 300, 3000, 1 << 20])
            expected = [b for b in written if b[1] > offset and b[1] <= upper]
            got = bytes(log.read(offset, limit, upper_offset=upper).data)
            assert got == b"".join(b[2] for b in expected)[: len(got)]
            assert bool(got) == bool(expected)
            ends = {0}
            for piece in expected:
                ends.add(max(ends) + len(piece[2]))
            assert len(got) in ends, "a batch was torn"
            if expected:
                assert len(got) <= max(limit, len(expected[0][2]))


def test_a_reader_that_follows_the_log_sees_every_batch_once(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log(segment_bytes=3000, index_interval_bytes=500)
    offset, seen = 0, []
    for i in range(200):
        put(log, batch(1 + i % 3, size=i % 90))
        if i % 4 == 3:
            while offset < log.end_offset:
                for header, record in read_all(log.read(offset, 700).data):
                    if record.offset >= offset:
                        seen.append(record.offset)
                    last = header.end_offset
                offset = last
    assert seen == list(range(log.end_offset))


def test_segments_roll_by_size_and_are_named_by_their_first_offset(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    import os

    log = make_log(segment_bytes=300)
    for _ in range(6):
        put(log, batch(1, size=60))
    bases = [segment.base_offset for segment in log.segments.all]
    assert bases == [0, 2, 4]
    names = set(os.listdir(f"{fast_dir}/t-0"))
    assert {f"{base:020d}.log" for base in bases} <= names
    assert {f"{base:020d}.index" for base in bases[:-1]} <= names
    assert {f"{base:020d}.timeindex" for base in bases[:-1]} <= names
    assert {f"{base:020d}.snapshot" for base in bases[1:]} <= names


def test_segments_roll_by_the_records_own_time_and_by_full_indexes(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log(segment_ms=1000)
    put(log, batch(1, timestamp_ms=NOW_MS - 5000))
    put(log, batch(1, timestamp_ms=NOW_MS - 4001))
    assert len(log.segments) == 1
    put(log, batch(1, timestamp_ms=NOW_MS - 3000))
    assert len(log.segments) == 2
    log.config = type(log.config)(index_interval_bytes=0, segment_index_bytes=40)
    for _ in range(20):
        put(log, batch(1))
    assert len(log.segments) > 4


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda b: b[:40], ErrorCode.INVALID_RECORD),
        (lambda b: b[:-1], ErrorCode.INVALID_RECORD),
        (lambda b: b[:70] + bytes([b[70] ^ 1]) + b[71:], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:16] + b"\x01" + b[17:], ErrorCode.INVALID_RECORD),
        (lambda b: b + b, ErrorCode.INVALID_RECORD),
        (lambda b: b[:8] + b"\xff\xff\xff\xff" + b[12:], ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=["no header", "cut off", "flipped bit", "magic 1", "two batches", "negative length"],
)
def test_damaged_batches_are_refused_and_nothing_changes(
    make_log: MakeLog, batch: Batch, damage: Callable[[bytes], bytes], code: ErrorCode
) -> None:
    log = make_log()
    refused(code, log, damage(bytes(batch(2))))
    put(log, batch(2))


@pytest.mark.parametrize("seed", range(15))
def test_no_garbage_gets_past_the_checks_or_raises_anything_else(
    make_log: MakeLog, batch: Batch, seed: int
) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    log = make_log()
    for _ in range(25):
        data = bytearray(batch(dice.randrange(1, 4)))
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(8, len(data))] ^= 1 << dice.randrange(8)
        untouched = bytes(data[16:])
        try:
            put(log, bytes(data))
        except LogError:
            continue
        assert check_crc(bytes(8) + bytes(data[8:])), "only bytes outside the CRC may differ"
        assert bytes(log.read(log.end_offset - 1, 1 << 20).data[16:]) == untouched


def test_a_batch_larger_than_the_topic_allows_is_too_large(make_log: MakeLog, batch: Batch) -> None:
    refused(ErrorCode.MESSAGE_TOO_LARGE, make_log(max_message_bytes=200), batch(1, size=200))
    refused(ErrorCode.RECORD_LIST_TOO_LARGE, make_log(segment_bytes=200), batch(1, size=200))


def test_offsets_that_do_not_match_the_record_count_are_refused(
    make_log: MakeLog, batch: Batch
) -> None:
    refused(ErrorCode.INVALID_RECORD, make_log(), batch(2, last_offset_delta=5))


def test_clients_may_not_write_control_records_but_coordinators_may(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    refused(ErrorCode.INVALID_RECORD, log, batch(1, is_control=True))
    put(log, batch(1, is_control=True), origin=AppendOrigin.RAFT_LEADER)


def test_timestamps_far_in_the_future_are_refused_and_the_past_only_if_the_topic_says_so(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    refused(ErrorCode.INVALID_TIMESTAMP, log, batch(1, timestamp_ms=NOW_MS + 3_600_001))
    put(log, batch(1, timestamp_ms=0))
    strict = make_log(message_timestamp_before_max_ms=1000)
    refused(ErrorCode.INVALID_TIMESTAMP, strict, batch(1, timestamp_ms=NOW_MS - 1001))


def test_log_append_time_stamps_and_seals_the_batch_again(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(log_append_time=True)
    info = log.append(batch(2, timestamp_ms=5), leader_epoch=0, now_ms=NOW_MS)
    assert info.log_append_time_ms == NOW_MS
    stored = bytes(log.read(0, 1000).data)
    header = check_crc(stored)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_record_without_key_on_a_compacted_topic_is_named(
    make_log: MakeLog, batch: Batch, compression: int
) -> None:
    log = make_log(compacted=True)
    put(log, batch(3, compression=compression))
    error = refused(ErrorCode.INVALID_RECORD, log, batch(3, key=None, compression=compression))
    assert [index for index, _ in error.record_errors] == [0, 1, 2]


def test_a_read_only_buffer_is_copied_not_refused(make_log: MakeLog, batch: Batch) -> None:
    log = make_log()
    original = bytes(batch(1))
    put(log, original)
    put(log, memoryview(original))
    assert log.end_offset == 2
    assert header_at(original).base_offset == 0


def test_followers_append_what_the_leader_has_byte_for_byte(
    make_log: MakeLog, batch: Batch, tmp_path: object
) -> None:
    leader = make_log()
    for epoch in (1, 1, 3):
        put(leader, batch(2), epoch=epoch)
    data = bytes(leader.read(0, 1 << 20).data)
    from broker.config.views import TopicConfig
    from broker.disk.real import RealDisk

    follower = Log(f"{tmp_path}/t-1", disk=RealDisk(), config=TopicConfig(), now_ms=NOW_MS)
    torn = data + data[:HEADER_BYTES]
    follower.append_as_follower(torn, NOW_MS)
    assert bytes(follower.read(0, 1 << 20).data) == data
    assert follower.leader_epochs.entries == [(1, 0), (3, 4)]
    with pytest.raises(LogError) as caught:
        follower.append_as_follower(data, NOW_MS)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_of_an_epoch_is_where_the_next_one_begins(make_log: MakeLog, batch: Batch) -> None:
    log = make_log()
    for epoch in (2, 2, 5):
        put(log, batch(2), epoch=epoch)
    ends = {e: log.end_offset_for_epoch(e) for e in (1, 2, 3, 5, 6)}
    assert {e: tuple(end) for e, end in ends.items()} == {
        1: (1, 0),
        2: (2, 4),
        3: (2, 4),
        5: (5, 6),
        6: (-1, -1),
    }


def test_truncation_drops_whole_batches_and_everything_after(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log(segment_bytes=400, index_interval_bytes=0)
    for epoch in range(10):
        put(log, batch(2, size=40), epoch=epoch)
    log.truncate_to(9, NOW_MS)
    assert log.end_offset == 8
    assert log.latest_epoch == 3
    put(log, batch(1), epoch=4)
    assert [h.base_offset for _, h in iter_batches(b"".join(_all(log)))] == [0, 2, 4, 6, 8]
    log.truncate_fully_and_start_at(100, NOW_MS)
    assert (log.log_start_offset, log.end_offset) == (100, 100)
    assert put(log, batch(1)) == 100


def _all(log: Log) -> list[bytes]:
    pieces, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 20).data)
        pieces.append(data)
        offset = max(h.end_offset for _, h in iter_batches(data))
    return pieces


def test_a_follower_that_begins_anew_takes_the_batch_that_its_start_lies_in(
    make_log: MakeLog, batch: Batch
) -> None:
    """Found by the simulation: DeleteRecords had cut inside a batch; a follower that had to start
    at the leader's log start refused that batch for ever."""
    leader, follower_at = make_log(), 7
    for _ in range(3):
        put(leader, batch(5))
    data = bytes(leader.read(follower_at, 1 << 20).data)
    leader.close()
    follower = make_log()
    follower.truncate_fully_and_start_at(follower_at, NOW_MS)
    follower.append_as_follower(data, NOW_MS)
    assert (follower.log_start_offset, follower.end_offset) == (7, 15)
    assert follower.high_watermark == 7
    with pytest.raises(LogError):
        follower.append_as_follower(data, NOW_MS)
