"""Records read all at once are those that are read one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.cleaner.columns import Bodies, RecordColumns, headers_at, read_columns
from broker.log.cleaner.digests import PADDING
from bus.records.batch import HEADER, HEADER_BYTES, RecordsError, header_at, seal
from bus.records.build import build_batch
from bus.records.read import check_end, record_at
from bus.records.record import Record
from bus.records.retain import retain
from bus.records.varint import zagzig, zigzag

NOW_MS = 1_760_000_000_000

SEEDS = st.integers(0, 2**32 - 1)
"""Not st.randoms: what is drawn here is more than hypothesis keeps of one."""


def columns_of(batches: list[bytes]) -> tuple[RecordColumns, list[bool]]:
    data = b"".join(batches)
    buffer = np.frombuffer(data + bytes(PADDING), np.uint8)
    ends = np.cumsum([len(batch) for batch in batches])
    starts = ends - [len(batch) for batch in batches]
    bodies = Bodies(starts + HEADER_BYTES, ends)
    records, unreadable = read_columns(buffer, bodies, headers_at(buffer, starts))
    return records, unreadable.tolist()


def drawn_batch(dice: random.Random) -> bytes:
    base = dice.choice([0, 1000, 2**40])
    count = dice.choice([0, 1, 1, 2, 5, 40])
    offsets = sorted(dice.sample(range(base, base + 2 * count), count))
    records = [
        Record(drawn_bytes(dice), drawn_bytes(dice),
               [("name" * dice.randrange(1, 40), drawn_bytes(dice))] * dice.choice([0, 0, 0, 1, 3]),
               dice.choice([-1, 0, NOW_MS, NOW_MS + dice.randrange(-(2**33), 2**33)]), offset)
        for offset in offsets
    ]  # fmt: skip
    return bytes(build_batch(
        records, base_offset=base, last_offset_delta=2 * count + 3,
        log_append_time_ms=dice.choice([None, NOW_MS]),
        delete_horizon_ms=dice.choice([None, NOW_MS + 9]),
    ))  # fmt: skip


def drawn_bytes(dice: random.Random) -> bytes | None:
    return dice.choice([None, b"", dice.randbytes(1) * dice.choice([1, 40, 63, 64, 200, 9000])])


def rows_of(records: RecordColumns, batches: list[bytes]) -> list[tuple[Any, ...]]:
    """What the columns say, as values."""
    data = b"".join(batches)
    rows: list[tuple[Any, ...]] = []
    for batch, start, end, rest, time, offset, key, size, has_value in zip(
        *(column.tolist() for column in records), strict=True
    ):
        key_bytes = data[key : key + size] if size >= 0 else None
        rows.append((batch, data[start:end], data[rest:end], time, offset, key_bytes, has_value))
    return rows


def plain_rows(batches: list[bytes]) -> list[tuple[Any, ...]]:
    """The same by reading one record after another."""
    rows: list[tuple[Any, ...]] = []
    for number, batch in enumerate(batches):
        header = header_at(batch)._replace(base_timestamp=0, base_offset=0, attributes=0)
        body, at = batch[HEADER_BYTES:], 0
        for _ in range(header.records_count):
            record, end = record_at(header, body, at, len(body))
            rest = zagzig(body, zagzig(body, at)[1] + 1)[1]
            rows.append((
                number, body[at:end], body[rest:end], record.timestamp_ms, record.offset,
                record.key, record.value is not None,
            ))  # fmt: skip
            at = end
        check_end(body, at)
    return rows


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_the_columns_of_any_batches_say_what_their_records_are(seed: int) -> None:
    dice = random.Random(seed)
    batches = [drawn_batch(dice) for _ in range(dice.randint(1, 12))]
    records, unreadable = columns_of(batches)
    assert not any(unreadable)
    assert rows_of(records, batches) == plain_rows(batches)


@settings(max_examples=120, deadline=None)
@given(SEEDS)
def test_a_batch_is_refused_when_it_is_refused_record_by_record(seed: int) -> None:
    """Flipped, cut and inserted bytes between sound batches; what is refused hides nothing."""
    dice = random.Random(seed)
    batches = [drawn_batch(dice) for _ in range(4)]
    for number in dice.sample(range(4), dice.randint(1, 3)):
        batches[number] = damaged(batches[number], dice)
    records, unreadable = columns_of(batches)
    for number, batch in enumerate(batches):
        expected = is_readable(batch)
        assert expected is None or unreadable[number] == (not expected), number
    sound = [batch for number, batch in enumerate(batches) if not unreadable[number]]
    assert len(records.batch) == sum(header_at(batch).records_count for batch in sound)


def damaged(batch: bytes, dice: random.Random) -> bytes:
    """Other records under the same header, or another number of them, sealed again."""
    data = bytearray(batch)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(HEADER_BYTES, len(data) + 1)
        data[at : at + dice.choice([0, 1, 1, 4])] = dice.randbytes(dice.choice([0, 1, 1, 4]))
    header = header_at(data)._replace(batch_length=len(data) - 12)
    if dice.random() < 0.3:
        header = header._replace(records_count=header.records_count + dice.choice([-1, 1, 2**30]))
    if dice.random() < 0.2:
        header = header._replace(last_offset_delta=dice.randrange(4))
    HEADER.pack_into(data, 0, *header)
    seal(data, 0, len(data))
    return bytes(data)


def is_readable(batch: bytes) -> bool | None:
    """By ``retain``; None if only a name of a header is wrong, as far as that was read."""
    try:
        retain(batch, lambda record: True, delete_horizon_ms=0, keeps_empty=True)
    except RecordsError as error:
        return None if "UTF-8" in error.detail else False
    return True


@pytest.mark.parametrize("tail", [b"", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 11])
def test_a_varint_ends_after_ten_bytes_and_sixty_four_bits(tail: bytes) -> None:
    fields = b"\x00" + (tail or b"\x00") + zigzag(0) + zigzag(-1) * 2 + b"\x00"
    body = zigzag(len(fields)) + fields
    header = header_at(build_batch([Record(b"k", b"v", timestamp_ms=0)]))
    batch = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - 12))
    _, unreadable = columns_of([bytes(batch)])
    assert unreadable == [tail not in (b"", b"\xff" * 9 + b"\x01")]
