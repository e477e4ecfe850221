"""What a leader takes from a producer and what it refuses, with Kafka's codes."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from broker.log.errors import NotOneBatch
from broker.log.log import Log
from bus.errors import ErrorCode
from bus.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    header_at,
    iter_batches,
    seal,
)
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.record import Record
from tests.broker.log.test_log import NOW_MS, Batch, MakeLog, put, refused

DAY_MS = 86_400_000
ATTRIBUTES_AT, LAST_DELTA_AT, MAX_TIMESTAMP_AT, COUNT_AT = 21, 23, 35, 57


def changed(batch: bytearray, at: int, layout: str, value: int) -> bytes:
    """The batch with one field changed, sealed again."""
    made = bytearray(batch)
    struct.pack_into(layout, made, at, value)
    seal(made, 0, len(made))
    return bytes(made)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(
    make_log: MakeLog, batch: Batch, codec: int
) -> None:
    """It was stored, and no consumer could read past it."""
    refused(
        ErrorCode.UNKNOWN_SERVER_ERROR, make_log(), changed(batch(), ATTRIBUTES_AT, ">h", codec)
    )


@pytest.mark.parametrize("base_offset", [77, -5])
def test_a_client_does_not_choose_offsets(
    make_log: MakeLog, batch: Batch, base_offset: int
) -> None:
    """The base offset of a producer's batch is 0."""
    refused(ErrorCode.INVALID_RECORD, make_log(), batch(base_offset=base_offset))


@pytest.mark.parametrize(
    "piece",
    [b"\1", bytes(11), bytes(8) + struct.pack(">i", 14), bytes(8) + struct.pack(">iib", 64, 0, 2)],
    ids=["a byte", "no length", "no magic", "a batch cut off"],
)
def test_a_piece_of_another_batch_behind_the_batch_is_dropped(
    make_log: MakeLog, batch: Batch, piece: bytes
) -> None:
    """Kafka stores the whole batch and says nothing of the piece."""
    log = make_log()
    whole = bytes(batch(2))
    assert put(log, whole + piece) == 0
    assert log.end_offset == 2
    data = bytes(log.read(0, 1 << 20).data)
    assert data[HEADER_BYTES:] == whole[HEADER_BYTES:]
    put(log, batch(1))
    assert [header.base_offset for _, header in iter_batches(log.read(0, 1 << 20).data)] == [0, 2]


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        (bytes(16), ErrorCode.CORRUPT_MESSAGE),
        (bytes(8) + struct.pack(">iib", 64, 0, 3), ErrorCode.CORRUPT_MESSAGE),
        (bytes(8) + struct.pack(">iib", 14, 0, 0) + bytes(9), ErrorCode.INVALID_RECORD),
    ],
    ids=["no length there is", "no format there is", "a message of format 0"],
)
def test_what_stands_behind_the_batch_is_looked_at(
    make_log: MakeLog, batch: Batch, behind: bytes, code: ErrorCode
) -> None:
    """A second whole batch of any format is refused; other bytes are damage."""
    error = refused(code, make_log(), bytes(batch()) + behind)
    assert isinstance(error, NotOneBatch)
    assert error.answer is None


def test_damage_at_the_very_beginning_is_said_in_kafkas_words(
    make_log: MakeLog, batch: Batch
) -> None:
    """The one refusal of a whole request that has a sentence."""
    whole = bytes(batch())
    error = refused(ErrorCode.CORRUPT_MESSAGE, make_log(), whole[:16] + b"\xff" + whole[17:])
    assert error.answer == "Invalid magic found in record: -1"
    short = whole[:8] + struct.pack(">i", 13) + whole[12:]
    error = refused(ErrorCode.CORRUPT_MESSAGE, make_log(), short)
    assert error.answer == "Record size 13 is less than the minimum record overhead (14)"


def test_records_of_the_wrong_time_are_named_one_by_one(make_log: MakeLog) -> None:
    """Each with its place in the batch and the times that are allowed."""
    log = make_log(message_timestamp_before_max_ms=DAY_MS)
    times = [NOW_MS, NOW_MS + 2 * DAY_MS, NOW_MS - 2 * DAY_MS]
    error = refused(
        ErrorCode.INVALID_TIMESTAMP,
        log,
        build_batch([Record(None, b"v", timestamp_ms=at) for at in times]),
    )
    assert error.answer == "One or more records have been rejected due to invalid timestamp"
    assert error.record_errors == tuple(
        (
            index,
            f"Timestamp {times[index]} of message with offset {index} is out of range. The "
            f"timestamp should be within [{NOW_MS - DAY_MS}, {NOW_MS + 3_600_000}]",
        )
        for index in (1, 2)
    )


@pytest.mark.parametrize("at", [-2, -NOW_MS, -(1 << 62)])
def test_times_before_1970_are_old_too(make_log: MakeLog, at: int) -> None:
    """Only -1 is no time. Before, a record of any negative time passed the bound."""
    log = make_log(message_timestamp_before_max_ms=DAY_MS)
    refused(ErrorCode.INVALID_TIMESTAMP, log, build_batch([Record(None, b"v", timestamp_ms=at)]))
    put(log, build_batch([Record(None, b"v", timestamp_ms=-1)]))


def test_a_header_that_only_pretends_a_wrong_time_refuses_nothing(
    make_log: MakeLog, batch: Batch
) -> None:
    """The records' own times count."""
    put(make_log(), changed(batch(2), MAX_TIMESTAMP_AT, ">q", NOW_MS + 2 * DAY_MS))


def test_records_without_key_on_a_compacted_topic_are_named_one_by_one(
    make_log: MakeLog, batch: Batch
) -> None:
    """The list has all of them, the sentence three."""
    log = make_log(compacted=True)
    error = refused(ErrorCode.INVALID_RECORD, log, batch(4, key=None, compression=1))
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert error.record_errors == tuple((index, text) for index in range(4))
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in range(3))
    assert error.answer == (
        "One or more records have been rejected due to 4 record errors in total, and only "
        f"showing the first three errors at most: [{shown}]"
    )


UNREADABLE: dict[str, tuple[Callable[[Batch], bytes], ErrorCode]] = {
    "gzip flag": (
        lambda batch: changed(batch(), ATTRIBUTES_AT, ">h", Compression.GZIP),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    "record past the batch": (
        lambda batch: changed(batch(), HEADER_BYTES, ">B", 100),
        ErrorCode.INVALID_RECORD,
    ),
    "record ends early": (
        lambda batch: changed(batch(), HEADER_BYTES, ">B", 8),
        ErrorCode.INVALID_RECORD,
    ),
    "five records told, one there": (
        lambda batch: changed(
            bytearray(changed(batch(), COUNT_AT, ">i", 5)), LAST_DELTA_AT, ">i", 4
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "one record told, three there, packed": (
        lambda batch: changed(
            bytearray(changed(batch(3, compression=1), COUNT_AT, ">i", 1)), LAST_DELTA_AT, ">i", 0
        ),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_with_validation_on_what_no_consumer_could_read_is_refused(
    make_log: MakeLog, batch: Batch, case: str
) -> None:
    """produce.records.validation.enable; on a compacted topic it is always so."""
    made, code = UNREADABLE[case]
    refused(code, make_log(validates_records=True), made(batch))


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_compacted_topic_refuses_it_always(make_log: MakeLog, batch: Batch, case: str) -> None:
    """Its records are unpacked anyhow."""
    made, code = UNREADABLE[case]
    refused(code, make_log(compacted=True), made(batch))


@pytest.mark.parametrize("case", UNREADABLE)
def test_with_validation_off_the_header_and_the_checksum_are_all_that_is_looked_at(
    make_log: MakeLog, batch: Batch, case: str
) -> None:
    """The difference that is kept: to unpack every batch costs more than the whole append."""
    made, _ = UNREADABLE[case]
    put(make_log(), made(batch))


def test_validation_takes_every_codec(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(validates_records=True)
    for codec in Compression:
        put(log, batch(3, compression=codec))
    assert log.end_offset == 3 * len(Compression)


def test_a_batch_that_comes_again_is_answered_with_its_largest_timestamp(
    make_log: MakeLog, batch: Batch
) -> None:
    """As time of append, also where that is not the broker's: Kafka does so."""
    log = make_log()
    sent = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, bytes(sent))
    info = log.append(bytes(sent), leader_epoch=0, now_ms=NOW_MS)
    assert info.duplicate
    assert info.log_append_time_ms == NOW_MS + 1


def test_flags_that_mean_nothing_of_a_producer_are_taken(make_log: MakeLog, batch: Batch) -> None:
    """A transaction is the handler's to refuse; the time of append is the broker's to set."""
    log: Log = make_log()
    put(log, changed(batch(), ATTRIBUTES_AT, ">h", LOG_APPEND_TIME))
    put(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    assert header_at(log.read(1, 100).data).attributes & TRANSACTIONAL
