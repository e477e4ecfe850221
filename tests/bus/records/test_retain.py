"""A batch with some of its records removed, against a plain model and Apache Kafka's own cleaner."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import ErrorCode
from bus.limits import MAX_DECOMPRESSED_BYTES
from bus.records.batch import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    RecordsError,
    header_at,
    only_batch,
    seal,
)
from bus.records.build import build_batch
from bus.records.compression import Compression, compress
from bus.records.control import end_txn_marker
from bus.records.read import read_records
from bus.records.record import Record
from bus.records.retain import retain
from bus.records.varint import zigzag

NOW_MS = 1_760_000_000_000
HORIZON_MS = NOW_MS + 86_400_000


class Cleaning(NamedTuple):
    """A stored batch, the offsets of the records that stay, and how it is rewritten."""

    batch: bytes
    keep: frozenset[int]
    horizon_ms: int = HORIZON_MS
    ends_empty_transaction: bool = False
    keeps_empty: bool = False

    def run(self) -> Buffer | None:
        return retain(
            self.batch,
            lambda record: record.offset in self.keep,
            delete_horizon_ms=self.horizon_ms,
            ends_empty_transaction=self.ends_empty_transaction,
            keeps_empty=self.keeps_empty,
        )


def drawn(dice: random.Random) -> Cleaning:
    """A batch of every codec, kind and producer, with holes, as it was written or cleaned before."""
    batch = drawn_marker(dice) if dice.random() < 0.15 else drawn_batch(dice)
    offsets = [record.offset for record in read_records(batch)]
    share = dice.choice([0.0, 0.3, 0.9, 1.0])
    return Cleaning(
        batch,
        frozenset(offset for offset in offsets if dice.random() < share),
        dice.choice([HORIZON_MS, 0, 2**62]),
        dice.random() < 0.2,
        dice.random() < 0.5,
    )


def drawn_batch(dice: random.Random) -> bytes:
    base = dice.choice([0, 1000, 2**40])
    offsets = sorted(dice.sample(range(base, base + 40), dice.randint(0, 20)))
    last = max([*offsets, base + dice.randint(0, 50)])
    has_producer = dice.random() < 0.5
    producer = {
        "producer_id": dice.choice([0, 7, 2**40]),
        "producer_epoch": dice.randint(0, 30),
        "base_sequence": dice.choice([0, 5, 2**31 - 3]),
        "is_transactional": dice.random() < 0.5,
    }
    return bytes(build_batch(
        [drawn_record(dice, offset) for offset in offsets],
        base_offset=base,
        base_timestamp=dice.choice([None, NOW_MS - 5000]),
        compression=dice.choice(list(Compression)) if offsets else 0,
        partition_leader_epoch=dice.randint(-1, 9),
        log_append_time_ms=dice.choice([None, None, NOW_MS]),
        delete_horizon_ms=dice.choice([None, None, HORIZON_MS - 77]) if offsets else None,
        last_offset_delta=last - base,
        **(producer if has_producer else {}),  # type: ignore[arg-type]
    ))  # fmt: skip


def drawn_record(dice: random.Random, offset: int) -> Record:
    def drawn_bytes(most: int) -> bytes | None:
        return dice.choice([None, b"", dice.randbytes(dice.randrange(1, most))])

    headers = [(f"h{n}", drawn_bytes(9)) for n in range(dice.choice([0, 0, 1, 3]))]
    timestamp_ms = dice.choice([-1, 0, NOW_MS, NOW_MS + dice.randrange(-500, 500)])
    return Record(drawn_bytes(40), drawn_bytes(400), headers, timestamp_ms, offset)


def drawn_marker(dice: random.Random) -> bytes:
    marker = end_txn_marker(
        commit=dice.random() < 0.5, producer_id=9, producer_epoch=2,
        coordinator_epoch=3, timestamp_ms=NOW_MS,
    )  # fmt: skip
    return bytes(marker)


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_stays_is_what_a_plain_model_says(dice: random.Random) -> None:
    cleaning = drawn(dice)
    before, records = header_at(cleaning.batch), list(read_records(cleaning.batch))
    stay = [record for record in records if record.offset in cleaning.keep]
    made = cleaning.run()
    if not stay and not cleaning.keeps_empty:
        assert made is None
        return
    assert made is not None
    after = only_batch(made)
    assert list(read_records(made)) == stay
    for field in ("base_offset", "last_offset", "partition_leader_epoch", "producer_id",
                  "producer_epoch", "base_sequence", "last_sequence", "is_transactional",
                  "is_control", "is_log_append_time"):  # fmt: skip
        assert getattr(after, field) == getattr(before, field), field
    assert after.records_count == len(stay)
    if not stay:
        assert (after.compression, after.delete_horizon_ms) == (0, None)
        assert (after.max_timestamp, len(made)) == (before.max_timestamp, HEADER_BYTES)
        return
    is_marked = any(record.value is None for record in stay) or cleaning.ends_empty_transaction
    horizon_ms = before.delete_horizon_ms
    if is_marked and horizon_ms is None:
        horizon_ms = cleaning.horizon_ms
    assert (after.compression, after.delete_horizon_ms) == (before.compression, horizon_ms)
    if stay == records and horizon_ms == before.delete_horizon_ms:
        assert made is cleaning.batch
    elif not before.is_log_append_time:
        assert after.max_timestamp == max(record.timestamp_ms for record in stay)


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False))
def test_cleaning_twice_is_cleaning_once(dice: random.Random) -> None:
    """A horizon that is set stays; a batch that loses nothing more is handed on as it is."""
    cleaning = drawn(dice)
    made = cleaning.run()
    if made is not None:
        again = cleaning._replace(batch=bytes(made), horizon_ms=5)
        if only_batch(made).records_count:
            assert again.run() is again.batch
        else:
            assert again.run() == made


@pytest.mark.java
def test_kafka_makes_the_same_of_drawn_batches(
    run_java: Any, jars_of_kafka_44: list[Path], dice: random.Random
) -> None:
    """What Kafka reads in ours is what it reads in its own; without a codec, whose level may
    differ, the bytes are equal too."""
    cleanings = [drawn(dice) for _ in range(1000)]
    made = [cleaning.run() for cleaning in cleanings]
    stdin = "".join(map(_line, cleanings, made))
    lines = run_java("FilterTo.java", jars_of_kafka_44, stdin=stdin).splitlines()
    assert len(lines) == 3 * len(cleanings)
    for number, (cleaning, ours) in enumerate(zip(cleanings, made, strict=True)):
        theirs, shown_theirs, shown_ours = lines[3 * number : 3 * number + 3]
        assert shown_ours == shown_theirs, cleaning
        if not header_at(cleaning.batch).compression:
            assert _hex(ours) == theirs, cleaning


def _line(cleaning: Cleaning, made: Buffer | None) -> str:
    words = [
        cleaning.batch.hex(),
        ",".join(map(str, sorted(cleaning.keep))) or "-",
        str(cleaning.horizon_ms),
        str(cleaning.ends_empty_transaction).lower(),
        str(cleaning.keeps_empty).lower(),
        _hex(made),
    ]
    return " ".join(words) + "\n"


def _hex(made: Buffer | None) -> str:
    return "-" if made is None else bytes(made).hex()


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_bytes_of_any_kind_are_refused_or_give_a_readable_batch(
    dice: random.Random, is_sealed: bool
) -> None:
    """Flipped, cut and inserted bytes; sealed again, so that what lies behind the checksum is
    reached."""
    cleaning = drawn(dice)
    data = bytearray(cleaning.batch)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data))
        data[at : at + dice.choice([0, 1, 1, 4])] = dice.randbytes(dice.choice([0, 1, 1, 4]))
    if is_sealed and len(data) >= HEADER_BYTES:
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[16] = 2
        seal(data, 0, len(data))
    try:
        made = cleaning._replace(batch=bytes(data)).run()
    except RecordsError:
        return
    if made is not None:
        assert only_batch(made).last_offset == header_at(data).last_offset
        offsets = [record.offset for record in read_records(made)]
        assert set(offsets) <= cleaning.keep
        assert offsets == sorted(set(offsets))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(RecordsError):
        retain(data, lambda record: True, delete_horizon_ms=0)


def sealed(header: BatchHeader, body: bytes) -> bytes:
    batch = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - 12))
    seal(batch, 0, len(batch))
    return bytes(batch)


HEAD = header_at(build_batch([Record(b"k", b"v", timestamp_ms=5)], last_offset_delta=3))


def record_of(offset_delta: int, time_delta: int) -> bytes:
    fields = b"\x00" + zigzag(time_delta) + zigzag(offset_delta) + zigzag(-1) * 2 + b"\x00"
    return zigzag(len(fields)) + fields


@pytest.mark.parametrize(
    "body",
    [
        record_of(4, 0),
        record_of(-1, 0),
        record_of(1, 0) + record_of(1, 0),
        record_of(2, 0) + record_of(1, 0),
        record_of(0, 2**63 - 1),
        record_of(0, -(2**63)) + record_of(1, 2**62),
        record_of(0, 0) + b"\x00",
        record_of(0, 0)[:-1],
    ],
)
def test_records_that_cannot_be_written_again_are_refused(body: bytes) -> None:
    """Offsets outside the batch or not rising, times no reader could hold, wrong lengths."""
    count = 2 if len(body) > 10 else 1
    with pytest.raises(RecordsError):
        retain(
            sealed(HEAD._replace(records_count=count), body),
            lambda record: True,
            delete_horizon_ms=2**63 - 1,
        )


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    """Kilobytes that unpack to more than a batch may."""
    packed = compress(Compression.ZSTD, bytes(MAX_DECOMPRESSED_BYTES + 1))
    header = HEAD._replace(attributes=int(Compression.ZSTD))
    with pytest.raises(RecordsError) as refused:
        retain(sealed(header, packed), lambda record: True, delete_horizon_ms=0)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_of_very_many_records_costs_little_beside_its_bytes() -> None:
    """16 bytes a record, where a record as an object has some hundred."""
    count = 50_000
    body = b"".join(record_of(n, 0) for n in range(count))
    batch = sealed(HEAD._replace(records_count=count, last_offset_delta=count - 1), body)
    tracemalloc.start()
    made = retain(batch, lambda record: record.offset % 2 == 0, delete_horizon_ms=NOW_MS)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made is not None
    assert header_at(made).records_count == count // 2
    assert peak_bytes < 4 * len(batch) + 32 * count
