"""Compacted topics compared by the last value of each key."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import BusError
from bus.records.batch import assign
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from dr_mirror.proof.plan.last_values import LastValues, differing_keys, shares_of

Entry = tuple[int, int, bytes | None, bytes | None]
"""Offset, producer (0: no transaction), key, value; a key None is a marker, of which the value says
whether it commits."""


def a_batch(entry: Entry) -> bytes:
    offset, producer, key, value = entry
    if key is None:
        batch = end_txn_marker(
            commit=bool(value),
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=5,
        )
        assign(batch, 0, offset, 0)
    else:
        batch = build_batch(
            [Record(key, value, timestamp_ms=5)], base_offset=offset,
            **({"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
               if producer else {}),
        )  # fmt: skip
    return bytes(batch)


def a_log(dice, records: int) -> list[Entry]:
    """Writes to a few keys, tombstones, transactions that commit, abort or stay open."""
    log: list[Entry] = []
    open_: set[int] = set()
    while len(log) < records:
        offset = len(log)
        producer = dice.choice([0, 0, 1, 2])
        if producer in open_ and dice.random() < 0.4:
            open_.discard(producer)
            log.append((offset, producer, None, dice.choice([b"commit", b""])))
            continue
        if producer:
            open_.add(producer)
        value = None if dice.random() < 0.2 else dice.randbytes(3)
        log.append((offset, producer, bytes([dice.randrange(5)]), value))
    return log


def committed(log: list[Entry]) -> set[int]:
    """Offsets of what a read_committed consumer would get, sooner or later."""
    said: dict[int, list[int]] = {}
    found: set[int] = set()
    for offset, producer, key, value in log:
        if key is None:
            found |= set(said.pop(producer, [])) if value else set()
            said.pop(producer, None)
        elif producer:
            said.setdefault(producer, []).append(offset)
        else:
            found.add(offset)
    return found


def cleaned(log: list[Entry], dice, copied: int) -> list[Entry]:
    """As a log cleaner leaves it: some of what is superseded is gone; where all of it is, perhaps the
    tombstone, once the target has it: `delete.retention.ms` is longer than the target's lag. Were it
    not, the target would keep the value for ever, and that is a difference."""
    sure, at_target = committed(log), committed(log[:copied])
    last = {key: offset for offset, _, key, _ in log if key is not None and offset in sure}
    gone = {
        offset
        for offset, _, key, _ in log
        if key is not None and offset in sure and last[key] != offset and dice.random() < 0.5
    }
    for key, offset in last.items():
        older = {at for at, _, k, _ in log if k == key and at in sure and at < offset}
        is_deleted = log[offset][3] is None and offset in at_target
        if is_deleted and older <= gone and dice.random() < 0.5:
            gone.add(offset)
    return [entry for entry in log if entry[0] not in gone]


def values_of(log: list[Entry], end: int, share: int = 0, shares: int = 1) -> LastValues:
    found = LastValues(end, share, shares)
    position = 0
    for entry in log:
        position = found.add(a_batch(entry), position)
    return found


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_copy_is_equal_whatever_both_cleaners_did_and_however_far_it_is(dice):
    """The target has the log up to some offset; each side was cleaned by itself."""
    log = a_log(dice, dice.randrange(1, 40))
    end = dice.randrange(len(log) + 1)
    source = values_of(cleaned(log, dice, end), end)
    target = values_of([one for one in cleaned(log, dice, end) if one[0] < end], end)
    assert differing_keys(source, target) == []


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_key_whose_last_value_is_another_one_is_named_at_its_offset(dice):
    """Changed, lost or only at the target; in any share of the keys."""
    log = a_log(dice, dice.randrange(1, 40))
    sure = committed(log)
    last = {key: offset for offset, _, key, value in log if offset in sure and value is not None}
    last = {
        key: offset for key, offset in last.items()
        if not any(k == key and at > offset and at in sure for at, _, k, _ in log)
    }  # fmt: skip
    if not last:
        return
    key = dice.choice(sorted(last))
    offset = last[key]
    other = [
        (at, producer, k, b"another value" if at == offset else value)
        for at, producer, k, value in log
    ]
    shares = dice.randrange(1, 4)
    found = [
        one
        for share in range(shares)
        for one in differing_keys(
            values_of(log, len(log), share, shares), values_of(other, len(log), share, shares)
        )
    ]
    assert [(one.first_offset, one.detail) for one in found] == [
        (offset, "the last value of a key differs")
    ]


@given(st.binary(max_size=200), st.integers(0, 50))
def test_any_bytes_are_records_or_an_error_of_records(data, position):
    """A parser raises its own error only."""
    try:
        LastValues(100).add(data, position)
    except BusError:
        return


def test_shares_grow_with_the_partition():
    """As if every offset had a key of its own."""
    assert [shares_of(offsets) for offsets in (0, 1, 200_000, 200_001)] == [1, 1, 1, 2]
    with pytest.raises(ZeroDivisionError):
        LastValues(1, 0, 0).add(a_batch((0, 0, b"k", b"v")), 0)
