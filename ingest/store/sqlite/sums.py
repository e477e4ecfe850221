"""The sums that charts read, kept beside the cells: in the transaction of each batch, and, for the
cells of an older file, a slice after each batch.

Invariant: every cell of a minute from `summed.from_ms` on is in the sums, and no other. What a
batch changes in an earlier minute is left to the slice that takes the whole cell.
Core: `ingest.store.rollups`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bus.contracts.meters import LatencyCell
from ingest.store.rollups import (
    NUMBERS,
    LatencyKey,
    QualityChange,
    latency_sums,
    quality_sums,
    whole_cell,
)
from ingest.store.sqlite.cells import latency_cells, quality_cells
from ingest.store.sqlite.query import Statement
from ingest.store.sqlite.schema import ALL_SUMMED_MS

SLICE_CELLS = 500  # of each kind; a slice goes on for the rest of its last minute

_ADD_SUMS = f"""
INSERT INTO quality_sums (is_device, step_ms, start_ms, kind, camera_ip, recognizer_ip,
    {",".join(NUMBERS)})
VALUES (?, ?, ?, ?, ?, ?{", ?" * len(NUMBERS)})
ON CONFLICT DO UPDATE SET {",".join(f"{name} = {name} + excluded.{name}" for name in NUMBERS)}
"""
_ADD_REJECTED = """
INSERT INTO quality_sums_rejected (is_device, step_ms, start_ms, kind, camera_ip, recognizer_ip,
    reason, count)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count
"""
_LATENCIES = """
SELECT buckets FROM latency_sums
WHERE scope = ? AND step_ms = ? AND start_ms = ? AND kind = ? AND district_id = ? AND camera_ip = ?
"""
_PUT_LATENCIES = "INSERT OR REPLACE INTO latency_sums VALUES (?, ?, ?, ?, ?, ?, ?)"
_NEXT_MINUTE = """
SELECT max(minute_ms) FROM (
    SELECT max(minute_ms) AS minute_ms FROM quality WHERE minute_ms < ?1
    UNION ALL SELECT max(minute_ms) FROM latency_cells WHERE minute_ms < ?1
)
"""
_BUCKETS = msgspec.json.Decoder(dict[int, int])


class SqliteSums:
    """Works in the transactions of the writer."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, quality: Sequence[QualityChange], latency: Sequence[LatencyCell]) -> None:
        """What a batch has changed in cells."""
        from_ms = self._summed_from_ms()
        if from_ms > ALL_SUMMED_MS:
            quality = [one for one in quality if one.cell.minute_ms >= from_ms]
            latency = [cell for cell in latency if cell.minute_ms >= from_ms]
        self._add(quality, latency)

    def is_complete(self) -> bool:
        """Whether all cells are in the sums."""
        return self._summed_from_ms() == ALL_SUMMED_MS

    def take_slice(self) -> int:
        """Sum up whole minutes of older cells, the newest first; how many cells."""
        cells, before_ms = 0, self._summed_from_ms()
        while cells < SLICE_CELLS:
            (minute_ms,) = self._db.execute(_NEXT_MINUTE, (before_ms,)).fetchone()
            before_ms = ALL_SUMMED_MS if minute_ms is None else minute_ms
            if minute_ms is None:
                break
            cells += self._minute(minute_ms)
        self._db.execute("UPDATE summed SET from_ms = ?", (before_ms,))
        return cells

    def _summed_from_ms(self) -> int:
        return int(self._db.execute("SELECT from_ms FROM summed").fetchone()[0])

    def _minute(self, minute_ms: int) -> int:
        quality = quality_cells(self._rows, minute_ms, minute_ms + 1)
        latency = latency_cells(self._rows, minute_ms, minute_ms + 1)
        self._add([whole_cell(cell) for cell in quality], latency)
        return len(quality) + len(latency)

    def _rows(self, statement: Statement) -> list[tuple[Any, ...]]:
        return self._db.execute(statement.sql, statement.values).fetchall()

    def _add(self, quality: Iterable[QualityChange], latency: Iterable[LatencyCell]) -> None:
        numbers, rejected = quality_sums(quality)
        self._db.executemany(_ADD_SUMS, sorted((*key, *sums) for key, sums in numbers.items()))
        self._db.executemany(
            _ADD_REJECTED,
            [(*key, why, n) for (key, why), n in rejected.items()],
        )
        self._db.executemany(
            _PUT_LATENCIES,
            [(*key, self._merged(key, more)) for key, more in latency_sums(latency).items()],
        )

    def _merged(self, key: LatencyKey, more: dict[int, int]) -> str:
        row = self._db.execute(_LATENCIES, key).fetchone()
        buckets = Counter(_BUCKETS.decode(row[0]) if row else {})
        buckets.update(more)
        return msgspec.json.encode(dict(buckets)).decode()
