"""Logs to clean: segments of records of which a known share is live.

In: what the records are like. Out: a partition's directory. Never: a broker; the files are those
that one leaves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bus.records.batch import assign
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.record import Record

SEGMENT_BYTES = 100 << 20
NOW_MS = 1_760_000_000_000
_VALUES = 512
_WORDS = 64


class BenchRecords(NamedTuple):
    """Records of about ``record_bytes``, ``per_batch`` in a batch; ``total_bytes`` of them before
    they are compressed. One of ``per_key`` is live, and keys come in any order."""

    name: str
    total_bytes: int
    record_bytes: int
    per_batch: int
    per_key: int
    codec: Compression = Compression.NONE


class BenchLog(NamedTuple):
    """Closed segments up to ``end_offset``, the active one from there on."""

    directory: Path
    end_offset: int
    size_bytes: int


def make_log(workload: BenchRecords, folder: Path) -> BenchLog:
    """Write it. The same records each time, whoever cleans them."""
    directory = folder / "table-0"
    directory.mkdir(parents=True)
    offset = size_bytes = 0
    segment: list[bytearray] = []
    segment_bytes = first = 0
    for batch in _batches(workload):
        assign(batch, 0, offset, 0)
        offset += workload.per_batch
        segment.append(batch)
        segment_bytes += len(batch)
        if segment_bytes > SEGMENT_BYTES - (1 << 20):
            _write(directory, first, segment)
            size_bytes += segment_bytes
            segment, segment_bytes, first = [], 0, offset
    if segment:
        _write(directory, first, segment)
    last = build_batch([Record(b"last", b"", timestamp_ms=NOW_MS)], base_offset=offset)
    _write(directory, offset, [last])
    return BenchLog(directory, offset, size_bytes + segment_bytes)


def _batches(workload: BenchRecords) -> Iterator[bytearray]:
    dice = random.Random(7)
    count = workload.total_bytes // workload.record_bytes
    keys = max(count // workload.per_key, 1)
    values = [_text(dice, workload.record_bytes - 40) for _ in range(_VALUES)]
    for _ in range(count // workload.per_batch):
        records = [
            Record(b"group-%08d/topic-name/%02d" % (dice.randrange(keys), 7),
                   values[dice.randrange(_VALUES)], timestamp_ms=NOW_MS)
            for _ in range(workload.per_batch)
        ]  # fmt: skip
        yield build_batch(records, compression=workload.codec)


def _text(dice: random.Random, size: int) -> bytes:
    """Words, some of which come again: about what JSON packs to."""
    words = [b"%x" % dice.getrandbits(32) for _ in range(_WORDS)]
    return b",".join(dice.choices(words, k=max(size, 1)))[: max(size, 0)]


def _write(directory: Path, base_offset: int, batches: list[bytearray]) -> None:
    (directory / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
