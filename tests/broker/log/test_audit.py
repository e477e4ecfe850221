"""A segment is looked through to its end, however much of it has rotted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.disk.real import RealDisk
from broker.log import audit as audit_module
from broker.log.audit import Damage, audit, audit_from
from broker.log.batch_scanner import ScannedBatch
from broker.log.log import Log
from bus.records.batch import HEADER_BYTES, seal
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.record import Record

NOW_MS = 1_760_000_000_000
Batch = Callable[..., bytearray]


@pytest.fixture
def segment(make_log: Callable[..., Log], batch: Batch) -> Path:
    """Five batches of three records."""
    log = make_log()
    for _ in range(5):
        log.append(batch(3, size=50), leader_epoch=0, now_ms=NOW_MS)
    log.close()
    return Path(log.active_segment.path)


def looked_through(path: Path, *, records: bool = False) -> list[int | Damage]:
    """Base offsets of what is sound, and the damage between."""
    file = RealDisk().open(str(path))
    try:
        return [
            one.header.base_offset if isinstance(one, ScannedBatch) else one
            for one in audit(file, file.size(), 0, end_offset=15, records=records)
        ]
    finally:
        file.close()


def test_what_is_whole_is_sound(segment: Path) -> None:
    assert looked_through(segment) == [0, 3, 6, 9, 12]


def test_every_flipped_bit_is_found_and_hides_no_other_batch(segment: Path) -> None:
    """But in the leader epoch, which lies outside the checksum. The base offset does, too; it has
    to fit between its neighbours."""
    data = segment.read_bytes()
    size = len(data) // 5
    for bit in range(0, 8 * len(data), 11):
        if 12 <= bit // 8 % size < 16:
            continue
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        segment.write_bytes(flipped)
        hit = 3 * (bit // 8 // size)
        found = looked_through(segment)
        assert [one for one in found if isinstance(one, int)] == [
            base for base in (0, 3, 6, 9, 12) if base != hit
        ], bit
        [damage] = [one for one in found if isinstance(one, Damage)]
        assert damage.from_offset == hit
        assert damage.position == bit // 8 // size * size


def test_a_hole_of_zeros_and_a_cut_end(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    size = len(data) // 5
    data[size + 7 : 3 * size - 9] = bytes(2 * size - 16)
    segment.write_bytes(data[:-5])
    kinds = [one if isinstance(one, int) else one.from_offset for one in looked_through(segment)]
    assert kinds == [0, 3, 9, 12]
    assert looked_through(segment)[-1].fault == "the file ends inside a batch"  # type: ignore[union-attr]


def test_records_that_nobody_could_read_under_a_right_checksum(tmp_path: Path) -> None:
    """Produce does not unpack batches (docs/differences-from-kafka.md); this finds them."""
    packed = build_batch([Record(b"k", b"v" * 100)], compression=Compression.GZIP)
    packed[HEADER_BYTES:] = b"\x00" * (len(packed) - HEADER_BYTES)
    too_long = build_batch([Record(b"k", b"v")], base_offset=1)
    too_long[HEADER_BYTES] = 0x7E
    for one in (packed, too_long):
        seal(one, 0, len(one))
    sound = build_batch([Record(b"k", b"v")], base_offset=2)
    path = tmp_path / "0.log"
    path.write_bytes(packed + too_long + sound)
    assert looked_through(path) == [0, 1, 2]
    found = looked_through(path, records=True)
    assert [one if isinstance(one, int) else one.from_offset for one in found] == [0, 1, 2]
    assert [one.fault.partition("(")[0] for one in found if isinstance(one, Damage)] == [
        "the checksum is right, the records are not "
    ] * 2


@pytest.mark.parametrize("change", ["closed by the pool", "truncated", "deleted"])
def test_a_segment_read_with_pauses_is_read_on_whatever_becomes_of_it(
    make_log: Callable[..., Log], batch: Batch, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator does other work between the batches of a damaged segment."""
    monkeypatch.setattr(audit_module, "CHUNK_BYTES", 100)
    log = make_log()
    for _ in range(5):
        log.append(batch(3, size=50), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    reading = audit_from(log, 0)
    found = [next(reading)]
    if change == "truncated":
        log.truncate_to(7, NOW_MS)
    elif change == "deleted":
        log.truncate_fully_and_start_at(99, NOW_MS)
    log._files.close()
    found += list(reading)
    bases = [one.header.base_offset for one in found if isinstance(one, ScannedBatch)]
    assert bases == ([0, 3, 6, 9, 12] if change != "truncated" else [0, 3])
