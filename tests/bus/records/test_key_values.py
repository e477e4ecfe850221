"""The newest value of each key, read without the rest of a record."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.records.batch import RecordsError, header_at
from bus.records.build import build_batch
from bus.records.key_values import NewestValues, add_newest
from bus.records.read import read_records, unpacked
from bus.records.record import Record

LENGTHS = (0, 1, 63, 64, 127, 128, 8191, 8192)
"""Around the lengths whose varint gets another byte."""


def drawn_record(dice: random.Random) -> Record:
    def field() -> bytes | None:
        return None if dice.random() < 0.2 else dice.randbytes(dice.choice(LENGTHS))

    headers = [("h", field()) for _ in range(dice.randrange(3))]
    key = None if dice.random() < 0.1 else dice.choice((b"", b"a", b"b", dice.randbytes(200)))
    timestamp_ms = dice.choice((0, 1_760_000_000_000, 1 << 40))
    return Record(key, field(), headers, timestamp_ms=timestamp_ms)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def test_it_is_what_reading_every_record_in_order_gives(seed: int) -> None:
    dice = random.Random(seed)
    batch = bytes(build_batch([drawn_record(dice) for _ in range(dice.randrange(1, 12))]))
    plain: NewestValues = {}
    for record in read_records(batch):
        if record.key is not None:
            plain.pop(bytes(record.key), None)
            plain[bytes(record.key)] = None if record.value is None else bytes(record.value)
    header = header_at(batch)
    body = unpacked(batch, header)
    first = dice.randrange(header.records_count + 1)
    found: NewestValues = {}
    at = add_newest(found, body, 0, len(body), first)
    at = add_newest(found, body, at, len(body), header.records_count - first)
    assert at == len(body)
    assert list(found.items()) == list(plain.items())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_for_any_bytes_it_raises_its_own_error_or_none(seed: int) -> None:
    """And takes nothing that lies behind the end it was given."""
    dice = random.Random(seed)
    batch = bytes(build_batch([drawn_record(dice) for _ in range(3)]))
    body = bytearray(batch[61:] if dice.random() < 0.8 else dice.randbytes(dice.randrange(80)))
    for _ in range(dice.randrange(1, 6)):
        if body:
            body[dice.randrange(len(body))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
    end = dice.randrange(len(body) + 1)
    found: NewestValues = {}
    try:
        assert add_newest(found, bytes(body), 0, end, 3) <= end
    except RecordsError:
        return
    held = sum(len(key) + len(value or b"") for key, value in found.items())
    assert held <= end
