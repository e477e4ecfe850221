"""What a read_committed consumer gets is what is produced at an ordinary target, and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.records.batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    RecordsError,
    check_crc,
    iter_batches,
    only_batch,
)
from bus.records.build import build_batch
from bus.records.codecs import Compression
from bus.records.control import end_txn_marker
from bus.records.read import read_records
from bus.records.record import Record
from dr_mirror.copy.plan.committed import committed_runs
from dr_mirror.produce.plan.rewrite import SEQUENCES, BatchProducer, next_sequence, produced_batch

PRODUCER = BatchProducer(4711, 3, is_transactional=True)
Read = list[tuple[bytes | None, bytes | None, int]]


def produced(data: memoryview, start: int) -> list[Record]:
    """The records of the batches that a sender makes of a run."""
    found, sequence = [], 0
    for at, header in iter_batches(data):
        made = produced_batch(data[at : at + header.size_bytes], start, PRODUCER, sequence)
        if made is not None:
            sealed = only_batch(made.data)
            assert sealed.base_offset == 0
            assert sealed.partition_leader_epoch == -1
            assert sealed.last_offset_delta + 1 == sealed.records_count == made.records
            assert (sealed.producer_id, sealed.producer_epoch) == (4711, 3)
            assert sealed.base_sequence == sequence
            assert sealed.is_transactional
            assert not sealed.is_control
            assert not sealed.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
            assert sealed.compression == header.compression
            sequence = next_sequence(sequence, made.records)
            found += read_records(made.data)
    return found


@dataclass
class TransactionalLog:
    """A source's log as its leader writes it, with what a read_committed consumer gets of it."""

    dice: random.Random
    batches: list[bytes] = field(default_factory=list)
    read: list[tuple[int, Read]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    open: dict[int, tuple[int, list[tuple[int, Read]]]] = field(default_factory=dict)

    def grow(self) -> None:
        """One more batch, marker or gap."""
        what = self.dice.randrange(10)
        if what < 4:
            self.read.append(self._append(-1))
        elif what < 8:
            producer = self.dice.randrange(3)
            _begin, batches = self.open.setdefault(producer, (self.end, []))
            batches.append(self._append(producer))
        elif self.open:
            producer = self.dice.choice(sorted(self.open))
            self._end(producer, commit=self.dice.random() < 0.5)

    def _end(self, producer: int, *, commit: bool) -> None:
        begin, batches = self.open.pop(producer)
        if commit:
            self.read += batches
        else:
            self.aborted.append((producer, begin, self.end))
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
        )
        marker[:8] = self.end.to_bytes(8, "big")
        self.batches.append(bytes(marker))
        self.end += 1

    def _append(self, producer: int) -> tuple[int, Read]:
        dice, base = self.dice, self.end
        count = dice.randrange(1, 6)
        kept = [n for n in range(count) if dice.random() < 0.8 or dice.random() < 0.5]
        last = count - 1
        records = [
            Record(
                b"%d" % (base + n),
                dice.randbytes(dice.randrange(20)),
                [("h", b"1")],
                1000 + n,
                base + n,
            )
            for n in kept
        ]
        by_broker = 5000 if dice.random() < 0.2 else None
        batch = build_batch(
            records, base_offset=base, base_timestamp=1000,
            compression=dice.choice(list(Compression)), producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1, base_sequence=0 if producer >= 0 else -1,
            is_transactional=producer >= 0, log_append_time_ms=by_broker, last_offset_delta=last,
            delete_horizon_ms=900 if dice.random() < 0.1 else None,
        )  # fmt: skip
        self.batches.append(bytes(batch))
        self.end += count + (dice.randrange(4) if dice.random() < 0.2 else 0)
        times = [by_broker or each.timestamp_ms for each in records]
        return base, [(each.key, each.value, at) for each, at in zip(records, times, strict=True)]

    @property
    def last_stable_offset(self) -> int:
        return min((begin for begin, _ in self.open.values()), default=self.end)


@pytest.mark.parametrize("round_", range(20))
def test_what_is_produced_is_what_a_read_committed_consumer_gets(dice: random.Random, round_: int):
    """Fetched in pieces of random size, as responses are; holes, markers and open transactions too."""
    log = TransactionalLog(dice)
    for _ in range(dice.randrange(60)):
        log.grow()
    stable = log.last_stable_offset
    whole, position, got = b"".join(log.batches), 0, []
    while True:
        piece = _response(log, position, dice.randrange(100, 1500))
        aborted = [(who, begin) for who, begin, end in log.aborted if end >= position]
        runs = committed_runs(piece, position, stable, aborted)
        for run in runs:
            assert run.base_offset == position
            assert run.end_offset > position
            assert len(list(iter_batches(run.data))) == run.batches
            got += produced(run.data, position)
            position = run.end_offset
        if not runs:
            break
    wanted = [each for base, batch in sorted(log.read) if base < stable for each in batch]
    assert [(each.key, each.value, each.timestamp_ms) for each in got] == wanted
    assert len(whole) == 0 or position <= log.end


def _response(log: TransactionalLog, position: int, size: int) -> bytes:
    """Whole batches from the one that holds `position` on, the last one torn; the first one whole."""
    found = b""
    for batch in log.batches:
        _, header = next(iter(iter_batches(batch)))
        if header.end_offset > position:
            found += batch
            if len(found) >= size:
                return found[: max(size, len(batch) if len(found) == len(batch) else 0)]
    return found


def test_records_before_the_position_are_left_out_of_the_batch_that_holds_it():
    """A partition whose log start was moved into a batch begins there."""
    batch = build_batch([Record(b"%d" % n, b"", (), 7) for n in range(5)], base_offset=10)
    [run] = committed_runs(bytes(batch), 13, 15, [])
    assert (run.base_offset, run.end_offset) == (13, 15)
    assert [each.key for each in produced(run.data, 13)] == [b"3", b"4"]


def test_a_batch_without_a_hole_keeps_its_packed_records(dice: random.Random):
    """Its body is not even unpacked: what lies behind the header is the same bytes."""
    records = [Record(None, dice.randbytes(50), (), 1) for _ in range(9)]
    batch = bytes(build_batch(records, base_offset=77, compression=Compression.ZSTD))
    made = produced_batch(batch, 77, PRODUCER, SEQUENCES - 4)
    assert made is not None
    assert not made.is_rebuilt
    assert made.records == 9
    assert made.data[61:] == batch[61:]
    assert next_sequence(SEQUENCES - 4, 9) == 5


def test_a_damaged_batch_is_refused_before_it_gets_a_new_crc(dice: random.Random):
    """Any bit behind the CRC's own place."""
    records = [Record(None, dice.randbytes(50), (), 1) for _ in range(3)]
    batch = bytearray(build_batch(records, compression=Compression.ZSTD))
    batch[dice.randrange(61, len(batch))] ^= 1 << dice.randrange(8)
    with pytest.raises(RecordsError):
        committed_runs(batch, 0, 3, [])


@given(
    st.binary(max_size=300),
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50))),
)
def test_no_bytes_make_the_reader_fail_otherwise_than_with_its_own_error(
    records: bytes, position: int, aborted: list[tuple[int, int]]
):
    """Whatever a source sends."""
    try:
        runs = committed_runs(records, position, 1 << 62, aborted)
    except RecordsError:
        return
    assert sum(len(run.data) for run in runs) <= len(records)


@given(st.data())
def test_a_batch_with_any_damage_is_rewritten_or_refused(data: st.DataObject):
    """Damage that the CRC covers is found before; what is left are a header's own lies."""
    records = [Record(None, b"value", (), 1) for _ in range(data.draw(st.integers(1, 4)))]
    batch = bytearray(build_batch(records))
    batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        made = produced_batch(batch, 0, PRODUCER, 0)
    except RecordsError:
        return
    assert made is None or check_crc(made.data).records_count == made.records
