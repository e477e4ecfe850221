"""Batches of ours against the builders of kafka-python and aiokafka, both ways, and garbage."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from kafka.record import default_records as kafka_python_records

from bus.errors import ErrorCode
from bus.limits import MAX_DECOMPRESSED_BYTES
from bus.records import batch as batches
from bus.records.batch import HEADER_BYTES, RecordsError, header_at, iter_batches
from bus.records.build import build_batch
from bus.records.compression import Compression, compress, decompress
from bus.records.control import (
    ControlType,
    control_type,
    coordinator_epoch,
    end_txn_marker,
)
from bus.records.read import read_all, read_records
from bus.records.record import Record

ALL = list(Compression)
SEEDS = range(10)
THEIRS = [  # kafka-python reads snappy only with a package that we do not install
    *[(kafka_python_records, codec) for codec in ALL if codec != Compression.SNAPPY],
    *[(aiokafka_records, codec) for codec in ALL],
]


def some_records(rng: random.Random, count: int) -> list[Record]:
    """Records with nulls, empties, headers and times that go backwards."""
    return [
        Record(
            key=rng.choice([None, b"", rng.randbytes(rng.randrange(1, 40))]),
            value=rng.choice([None, b"", rng.randbytes(rng.randrange(1, 3000))]),
            headers=[
                (f"h{n}", rng.choice([None, b"", rng.randbytes(8)]))
                for n in range(rng.randrange(3))
            ],
            timestamp_ms=1_700_000_000_000 + rng.randrange(-500, 500),
            offset=1000 + n,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_built_is_read(codec: Compression, seed: int) -> None:
    records = some_records(random.Random(seed), 1 + seed)
    built = build_batch(records, base_offset=1000, compression=codec)
    assert batches.only_batch(built).last_offset == 1000 + seed
    assert list(read_records(built)) == records


@pytest.mark.parametrize(("library", "codec"), THEIRS)
def test_other_libraries_read_our_batch(library: Any, codec: Compression) -> None:
    records = some_records(random.Random(7), 12)
    ours = bytes(build_batch(records, base_offset=1000, compression=codec))
    theirs = library.DefaultRecordBatch(ours)
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert read == [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in records]


@pytest.mark.parametrize(("library", "codec"), THEIRS)
def test_we_read_the_batches_of_other_libraries(library: Any, codec: Compression) -> None:
    records = some_records(random.Random(8), 12)
    builder = library.DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 20)
    for n, r in enumerate(records):
        builder.append(n, r.timestamp_ms, r.key, r.value, list(r.headers))
    theirs = bytearray(builder.build())
    batches.assign(theirs, 0, 1000, 3)
    header = batches.only_batch(theirs)
    assert (header.base_offset, header.partition_leader_epoch) == (1000, 3)
    assert list(read_records(theirs)) == records


def test_assigning_offset_and_epoch_leaves_the_crc_right() -> None:
    built = build_batch([Record(b"k", b"v", timestamp_ms=5)])
    before = header_at(built)
    batches.assign(memoryview(built), 0, 77, 4)
    after = batches.check_crc(built)
    assert after == before._replace(base_offset=77, partition_leader_epoch=4)


def test_a_batch_timed_by_the_broker_gives_all_records_that_time() -> None:
    built = build_batch([Record(b"k", b"v", timestamp_ms=5), Record(None, b"w", timestamp_ms=9)])
    batches.stamp_log_append_time(built, 0, 1234)
    batches.check_crc(built)
    assert [record.timestamp_ms for record in read_records(built)] == [1234, 1234]


def test_a_cleaned_batch_keeps_its_gaps_and_its_last_offset() -> None:
    kept = [
        Record(b"a", b"1", timestamp_ms=5, offset=10),
        Record(b"b", b"2", timestamp_ms=6, offset=17),
    ]
    built = build_batch(kept, base_offset=10, last_offset_delta=9)
    assert header_at(built).last_offset == 19
    assert list(read_records(built)) == [r._replace(headers=[]) for r in kept]


def test_the_last_sequence_wraps_where_kafka_wraps_it() -> None:
    records = [Record(None, b"v", timestamp_ms=1)] * 3
    built = build_batch(records, producer_id=9, producer_epoch=0, base_sequence=2**31 - 2)
    assert header_at(built).last_sequence == 0


def test_whole_batches_are_found_and_a_torn_tail_is_left() -> None:
    one = build_batch([Record(None, b"v" * 10, timestamp_ms=1)])
    for cut in range(1, len(one)):
        found = [offset for offset, _ in iter_batches(one + one + one[:-cut])]
        assert found == [0, len(one)]


def test_two_batches_are_not_one() -> None:
    one = build_batch([Record(None, b"v", timestamp_ms=1)])
    with pytest.raises(RecordsError) as raised:
        batches.only_batch(one + one)
    assert raised.value.code == ErrorCode.INVALID_RECORD


def test_old_formats_are_named_as_such() -> None:
    old = bytearray(build_batch([Record(None, b"v", timestamp_ms=1)]))
    old[16] = 1
    with pytest.raises(RecordsError) as raised:
        list(iter_batches(old))
    assert raised.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_every_flipped_byte_after_the_epoch_is_noticed() -> None:
    sound = build_batch([Record(b"key", b"value" * 9, timestamp_ms=1)])
    for at in range(16, len(sound)):
        broken = bytearray(sound)
        broken[at] ^= 0x10
        with pytest.raises(RecordsError):
            batches.check_crc(broken)


def test_a_transaction_marker_says_what_it_ends() -> None:
    marker = end_txn_marker(
        commit=False, producer_id=4, producer_epoch=2, coordinator_epoch=11, timestamp_ms=1
    )
    header = batches.only_batch(marker)
    (record,) = read_records(marker)
    assert header.is_control
    assert header.is_transactional
    assert control_type(record.key) is ControlType.ABORT
    assert coordinator_epoch(record.value) == 11


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_garbage_in_a_batch_raises_only_a_records_error(codec: Compression, seed: int) -> None:
    rng = random.Random(seed)
    sound = build_batch(some_records(rng, 5), compression=codec)
    for _ in range(40):
        broken = bytearray(sound)
        for _ in range(rng.randrange(1, 6)):
            broken[rng.randrange(16, len(broken))] = rng.randrange(256)
        del broken[rng.choice([len(broken), rng.randrange(len(broken))]) :]
        try:
            list(read_all(broken))
            list(read_records(broken))
        except RecordsError:
            pass


@pytest.mark.parametrize("codec", [codec for codec in ALL if codec])
def test_a_bomb_is_refused_before_it_fills_the_memory(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.records.compression.MAX_DECOMPRESSED_BYTES", 1 << 16)
    assert MAX_DECOMPRESSED_BYTES > 1 << 16
    with pytest.raises(RecordsError) as raised:
        decompress(codec, compress(codec, bytes(1 << 20)))
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_unframed_snappy_is_read_too() -> None:
    import cramjam

    packed = bytes(cramjam.snappy.compress_raw(b"plate" * 100))
    assert decompress(Compression.SNAPPY, packed) == b"plate" * 100


def test_the_header_has_the_size_of_the_format() -> None:
    assert HEADER_BYTES == 61
