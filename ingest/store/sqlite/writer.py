"""The embedded store, write side: one batch, one transaction, positions included.

There is one writer, which holds a lock file. Replays change nothing: identity decides about rows,
positions about counts.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import astuple, force_setattr

from bus.contracts.meters import CumulativeCount, LatencyCell, QualityCell
from bus.contracts.video_segments import VideoSegment
from bus.domain.retention import RetentionSettings
from bus.files.lock_file import hold_lock_file
from bus.files.sqlite_transaction import immediate_transaction
from bus.runtime import wall_clock
from ingest.store.port import (
    COMMON_STORED,
    Applied,
    Position,
    RecordRow,
    RejectedRow,
    StoreBatch,
    StoreError,
    StoreUnavailable,
)
from ingest.store.positions import was_applied
from ingest.store.quality_cells import accepted_by_kind, counted_cell, merged_cells, stored_cells
from ingest.store.rollups import quality_change
from ingest.store.sqlite.cells import quality_cell
from ingest.store.sqlite.errors import sqlite_errors
from ingest.store.sqlite.facets import (
    FACET_CHECKPOINT,
    FACET_KIND,
    FACET_PARTLY_READ,
    FACET_PLATE,
    FACET_PLATE_REVERSED,
    HOUR_MS,
)
from ingest.store.sqlite.reader import SqliteReader
from ingest.store.sqlite.retention import SqliteRetention
from ingest.store.sqlite.schema import fit_cache, prepare
from ingest.store.sqlite.sums import SqliteSums
from ingest.store.totals import DUPLICATES, REJECTED, REJECTED_DUPLICATES, STORED


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ",".join("?" * len(columns))
    return f"INSERT OR IGNORE INTO {table} ({','.join(columns)}) VALUES ({marks})"


_INSERT_RECORD = _insert("records", RecordRow.__struct_fields__)
_INSERT_REJECTED = _insert("rejected", RejectedRow.__struct_fields__)
_INSERT_FACETS = f"""
INSERT INTO facets (hour, facet, value, captured_at_ms, id)
SELECT captured_at_ms / {HOUR_MS}, {FACET_PLATE}, plate_key, captured_at_ms, id
FROM records WHERE id > :before AND plate_key <> ''
UNION ALL
SELECT captured_at_ms / {HOUR_MS}, {FACET_PLATE_REVERSED}, reversed_text(plate_key),
    captured_at_ms, id
FROM records WHERE id > :before AND plate_key <> ''
UNION ALL
SELECT captured_at_ms / {HOUR_MS}, {FACET_PARTLY_READ}, partly_read_form(plate_number),
    captured_at_ms, id
FROM records WHERE id > :before AND plate_key = '' AND partly_read_form(plate_number) <> ''
UNION ALL
SELECT captured_at_ms / {HOUR_MS}, {FACET_CHECKPOINT}, checkpoint_id, captured_at_ms, id
FROM records WHERE id > :before
UNION ALL
SELECT captured_at_ms / {HOUR_MS}, {FACET_KIND}, kind, captured_at_ms, id
FROM records WHERE id > :before AND kind <> '{COMMON_STORED}'
ORDER BY 1, 2, 3, 4
"""
_INSERT_HOURS = f"""
INSERT OR IGNORE INTO hours
SELECT DISTINCT captured_at_ms / {HOUR_MS} FROM records WHERE id > :before
"""
_INSERT_CAMERA = """
INSERT INTO cameras (camera_ip, checkpoint_id, last_hour) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET last_hour = excluded.last_hour WHERE excluded.last_hour > last_hour
"""
_ADD_TOTAL = """
INSERT INTO totals (name, kind, reason, count) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET count = count + excluded.count
"""
_ADD_QUALITY = """
INSERT INTO quality (minute_ms, kind, camera_ip, recognizer_ip, sent, arrived, valid, partly_read,
    stored, accepted, duplicates)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET sent = sent + excluded.sent, arrived = arrived + excluded.arrived,
    valid = valid + excluded.valid, partly_read = partly_read + excluded.partly_read,
    stored = stored + excluded.stored, accepted = accepted + excluded.accepted,
    duplicates = coalesce(duplicates, valid - stored) + excluded.duplicates
RETURNING minute_ms, kind, camera_ip, recognizer_ip, sent, arrived, valid, partly_read, stored,
    accepted, duplicates
"""
_REJECTED_OF_CELL = """
SELECT reason, count FROM quality_rejected
WHERE minute_ms = ? AND kind = ? AND camera_ip = ? AND recognizer_ip = ?
"""
_NEXT_ATTEMPT = "UPDATE attempts SET newest = max(newest + 1, ?) RETURNING newest"
_ADD_QUALITY_REJECTED = """
INSERT INTO quality_rejected (minute_ms, kind, camera_ip, recognizer_ip, reason, count)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count
"""
_COUNTED_BEFORE = """
SELECT {number} FROM {number}
WHERE minute_ms = ? AND kind = ? AND camera_ip = ? AND recognizer_ip = ?
    AND producer = ? AND epoch = ?
"""
_PUT_COUNTED = """
INSERT INTO {number} (minute_ms, kind, camera_ip, recognizer_ip, producer, epoch, {number})
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET {number} = excluded.{number}
"""
_COUNTERS = {
    number: (_COUNTED_BEFORE.format(number=number), _PUT_COUNTED.format(number=number))
    for number in ("sent", "accepted")
}
"""By the number of a quality cell that they add to, which is the name of their table."""
_CELL = """
SELECT buckets FROM latency_cells
WHERE minute_ms = ? AND kind = ? AND district_id = ? AND camera_ip = ?
"""
_PUT_CELL = """
INSERT OR REPLACE INTO latency_cells (minute_ms, kind, district_id, camera_ip, buckets)
VALUES (?, ?, ?, ?, ?)
"""
_END_OFFSET = """
SELECT end_offset FROM positions
WHERE application = ? AND cluster_id = ? AND topic = ? AND topic_id = ? AND partition = ?
"""
_PUT_POSITION = """
INSERT OR REPLACE INTO positions (application, cluster_id, topic, topic_id, partition, end_offset)
VALUES (?, ?, ?, ?, ?, ?)
"""
_PUT_SEGMENT = """
INSERT INTO video_segments (camera_ip, start_ms, segment_id, end_ms, state, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, body = excluded.body
    WHERE excluded.state = 'deleted'
"""
_BUCKETS = msgspec.json.Decoder(dict[int, int])
# A slice of retention: a quarter more than the batch stored, so that a file that is too large
# shrinks under load; deleting a row costs about what storing it does.
MIN_SLICE_ROWS = 50
MAX_SLICE_ROWS = 1_000
log = logging.getLogger(__name__)


class SqliteStore(SqliteReader):
    """The one writer of a records file.

    Invariant: between two `apply` calls no transaction is open, and `positions` tells exactly which
    offsets the rows, totals, quality and latency tables have taken in.
    """

    def __init__(
        self,
        path: Path,
        now_ms: Callable[[], int] = wall_clock.now_ms,
        keep: RetentionSettings | None = None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path)
        self._now_ms = now_ms
        self._write_lock = threading.Lock()
        self._lock_file = _only_writer(path)
        with sqlite_errors(path):
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=10
            )
            prepare(self._db)
            self._sums = SqliteSums(self._db)
        self._retention = SqliteRetention(self._db, keep or RetentionSettings())

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """See `RecordStore.apply`."""
        with self._write_lock, sqlite_errors(self.path):
            fit_cache(self._db, len(batch.rows))
            with immediate_transaction(self._db):
                applied = self._apply(batch, positions)
        self._sum_up()
        self._forget(applied.stored + applied.stored // 4)
        return applied

    def set_positions(self, positions: Sequence[Position]) -> None:
        """See `RecordStore.set_positions`."""
        with self._write_lock, sqlite_errors(self.path), immediate_transaction(self._db):
            self._db.executemany(_PUT_POSITION, (astuple(p)[:6] for p in positions))

    def close(self) -> None:
        """Checkpoint, close, and let another writer in."""
        super().close()
        with self._write_lock:
            self._db.close()
            self._lock_file.close()

    def _apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        now_ms = self._now_ms()
        if was_applied(positions, self._end_offset):
            return Applied(
                stored=0, duplicates=0, rejected=0, rejected_duplicates=0, stored_at_ms=now_ms,
                already_applied=True,
            )  # fmt: skip
        attempt = int(self._db.execute(_NEXT_ATTEMPT, (now_ms,)).fetchone()[0])
        new = self._put_rows(batch.rows, now_ms)
        rejected = self._put_rejected(batch.rejected, now_ms)
        more = batch.latency(new) if batch.latency and new else ()
        latency = [self._merge_cell(cell, attempt) for cell in more]
        changes = merged_cells(
            [*batch.quality, *stored_cells(batch.rows, new), *self._counted(batch.counters)]
        )
        quality = [self._add_quality(cell, attempt) for cell in changes]
        grown = [quality_change(*pair) for pair in zip(quality, changes, strict=True)]
        self._sums.add(grown, more)
        self._db.executemany(_PUT_SEGMENT, map(_segment_values, batch.segments))
        self._db.executemany(_PUT_POSITION, (astuple(p)[:6] for p in positions))
        if batch.clocks is not None:
            self._db.execute("DELETE FROM clocks")
            self._db.executemany("INSERT INTO clocks VALUES (?, ?)", batch.clocks.items())
        return Applied(
            stored=len(new),
            duplicates=len(batch.rows) - len(new),
            rejected=rejected,
            rejected_duplicates=len(batch.rejected) - rejected,
            latency=latency,
            quality=quality,
            stored_at_ms=now_ms,
            accepted=accepted_by_kind(changes),
        )

    def _sum_up(self) -> None:
        """One slice of the cells of an older file, like `_forget`."""
        if self._sums.is_complete():
            return
        try:
            with self._write_lock, sqlite_errors(self.path), immediate_transaction(self._db):
                self._sums.take_slice()
        except StoreError as error:
            log.warning("older cells are not in the charts yet: %s", error)

    def _forget(self, at_most: int) -> None:
        """One slice of what is past its time, after the batch: its failure takes nothing back, the
        next batch tries again."""
        now_ms = self._now_ms()
        if not self._retention.is_due(now_ms):
            return
        limit = min(max(at_most, MIN_SLICE_ROWS), MAX_SLICE_ROWS)
        try:
            with self._write_lock, sqlite_errors(self.path), immediate_transaction(self._db):
                self._retention.forget(now_ms, limit)
        except StoreError as error:
            log.warning("nothing was deleted, though it is past its time: %s", error)

    def _end_offset(self, p: Position) -> int:
        row = self._db.execute(_END_OFFSET, astuple(p)[:5]).fetchone()
        return -1 if row is None else int(row[0])

    def _put_rows(self, rows: Sequence[RecordRow], now_ms: int) -> Sequence[RecordRow]:
        """Insert; the rows that were really new, in the order given, with their `stored_at_ms`."""
        if not rows:
            return ()
        before = self._db.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()[0]
        values = ((*astuple(row)[:-1], now_ms) for row in rows)
        inserted = self._db.executemany(_INSERT_RECORD, values).rowcount
        new = rows if inserted == len(rows) else self._newly_inserted(rows, before)
        self._db.execute(_INSERT_FACETS, {"before": before})
        self._db.execute(_INSERT_HOURS, {"before": before})
        seen = {(r.camera_ip, r.checkpoint_id, int(r.captured_at_ms / HOUR_MS)) for r in new}
        self._db.executemany(_INSERT_CAMERA, seen)
        kinds = Counter(row.kind for row in new)
        self._add_totals(STORED, kinds)
        if len(new) < len(rows):
            self._add_totals(DUPLICATES, Counter(row.kind for row in rows) - kinds)
        for row in new:
            force_setattr(row, "stored_at_ms", now_ms)
        return new

    def _newly_inserted(self, rows: Sequence[RecordRow], before: int) -> list[RecordRow]:
        """Row numbers only grow, so the new ones are those above; a batch may hold an identity
        twice."""
        found = self._db.execute("SELECT record_id FROM records WHERE id > ?", (before,))
        ids = {record_id for (record_id,) in found}
        new = []
        for row in rows:
            if row.record_id in ids:
                ids.remove(row.record_id)
                new.append(row)
        return new

    def _put_rejected(self, rows: Sequence[RejectedRow], now_ms: int) -> int:
        """Insert one by one (rejects are few), so that totals count only the new ones."""
        new: Counter[tuple[str, str]] = Counter()
        again: Counter[str] = Counter()
        for row in rows:
            *head, _, captured_at_ms = astuple(row)
            inserted = self._db.execute(_INSERT_REJECTED, (*head, now_ms, captured_at_ms)).rowcount
            if inserted:
                new[row.kind, row.reason] += 1
                force_setattr(row, "stored_at_ms", now_ms)
            else:
                again[row.kind] += 1
        totals = [(REJECTED, kind, reason, count) for (kind, reason), count in new.items()]
        self._db.executemany(_ADD_TOTAL, totals)
        self._add_totals(REJECTED_DUPLICATES, again)
        return sum(new.values())

    def _add_totals(self, name: str, kinds: Counter[str]) -> None:
        self._db.executemany(_ADD_TOTAL, [(name, kind, "", n) for kind, n in kinds.items()])

    def _merge_cell(self, cell: LatencyCell, attempt: int) -> LatencyCell:
        """Add to the stored histogram; the whole of it comes back."""
        key = (cell.minute_ms, cell.kind, cell.district_id, cell.camera_ip)
        row = self._db.execute(_CELL, key).fetchone()
        buckets = Counter(_BUCKETS.decode(row[0]) if row else {})
        buckets.update(cell.buckets)
        self._db.execute(_PUT_CELL, (*key, msgspec.json.encode(dict(buckets)).decode()))
        return msgspec.structs.replace(cell, buckets=dict(buckets), attempt=attempt)

    def _add_quality(self, cell: QualityCell, attempt: int) -> QualityCell:
        """Add increments to a cell; the whole of it comes back."""
        key = (cell.minute_ms, cell.kind, cell.camera_ip, cell.recognizer_ip)
        numbers = (
            cell.sent, cell.arrived, cell.valid, cell.partly_read, cell.stored, cell.accepted,
            cell.duplicates,
        )  # fmt: skip
        row = self._db.execute(_ADD_QUALITY, (*key, *numbers)).fetchone()
        reasons = [(*key, reason, count) for reason, count in cell.rejected.items()]
        self._db.executemany(_ADD_QUALITY_REJECTED, reasons)
        rejected = dict(self._db.execute(_REJECTED_OF_CELL, key).fetchall())
        return quality_cell(row, rejected, attempt)

    def _counted(self, counters: Iterable[CumulativeCount]) -> Iterator[QualityCell]:
        """Cumulative counters: a repeated or overtaken one adds nothing, a lost one heals with the
        next. What each adds, as an increment."""
        for one in counters:
            before, put = _COUNTERS[one.adds_to]
            cell = (one.minute_ms, one.kind, one.camera_ip, one.recognizer_ip)
            key = (*cell, one.source, one.epoch)
            row = self._db.execute(before, key).fetchone()
            more = one.count - (row[0] if row else 0)
            if more > 0:
                self._db.execute(put, (*key, one.count))
                yield counted_cell(one, more)


def _segment_values(one: VideoSegment) -> tuple[object, ...]:
    body = msgspec.json.encode(one)
    return one.camera_ip, one.start_ms, one.segment_id, one.end_ms, one.state, body


def _only_writer(path: Path) -> IO[str]:
    """Hold the lock file as long as the store is open; the kernel frees it when the process
    dies."""
    try:
        return hold_lock_file(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise StoreUnavailable(f"{path} is being written by another process") from error
