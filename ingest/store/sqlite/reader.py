"""The embedded store, read side: pages, totals and series while the writer goes on (WAL).

Takes no lock that the writer would feel. As long as no writer has made the file, everything is
empty: nothing has been stored.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.video_segments import VideoSegment
from bus.domain.confusion_table import ReadConfusion, packaged
from bus.domain.plates import folded
from ingest.store.port import (
    MAX_MISSING,
    Counts,
    MinuteQuality,
    MissingCell,
    PageRequest,
    PlatesFound,
    Position,
    QualityDevices,
    QualitySum,
    QualitySummary,
    Query,
    RecordRow,
    RejectedRow,
    cursor_numbers,
    priced,
)
from ingest.store.segments import spanning
from ingest.store.sqlite import cells
from ingest.store.sqlite.errors import sqlite_errors
from ingest.store.sqlite.facets import HOUR_MS
from ingest.store.sqlite.query import (
    MAX_PLATES_SCANNED,
    Statement,
    bounded,
    plates_statement,
    records_statement,
    scanned_since_statement,
)
from ingest.store.sqlite.schema import VERSION, add_functions, add_tolerance, version_of
from ingest.store.totals import counts_of

_REJECTED_COLUMNS = ",".join(RejectedRow.__struct_fields__)
_SEGMENTS = msgspec.json.Decoder(VideoSegment)
_Row = TypeVar("_Row", bound=msgspec.Struct)


class SqliteReader:
    """One connection per thread, each read-only."""

    def __init__(self, path: Path, read_confusion: ReadConfusion = packaged) -> None:
        """`read_confusion`: the table of misreadings that searches go by."""
        self.path = path
        self._read_confusion = read_confusion
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()

    def query(self, query: Query, page: PageRequest) -> tuple[list[RecordRow], str]:
        """See `RecordReader.query`."""
        statement = records_statement(priced(query, self._read_confusion), page)
        found, limit = self._rows(statement), bounded(page.limit)
        rows = [_struct(RecordRow, row[1:]) for row in found[:limit]]
        more = len(found) > limit
        return rows, f"{rows[-1].captured_at_ms}.{found[limit - 1][0]}" if more else ""

    def count(self, query: Query) -> int:
        """See `RecordReader.count`."""
        if query == Query():
            return sum(self.counts().stored.values())
        found = self._rows(records_statement(priced(query, self._read_confusion), None))
        return int(found[0][0]) if found else 0

    def plates_containing(
        self, part: str, *, limit: int = 20, most: int = MAX_PLATES_SCANNED
    ) -> PlatesFound:
        """See `RecordReader.plates_containing`; looks at the `most` newest entries."""
        key = folded(part)
        if not key:
            return PlatesFound(plates=())
        found = self._rows(plates_statement(key, most, bounded(limit)))
        last = self._rows(scanned_since_statement(most))
        since_ms = (last[0][0] + 1) * HOUR_MS if last else None
        return PlatesFound(plates=[plate for plate, _ in found], since_ms=since_ms)

    def rejected(
        self, *, kind: str, reason: str, page: PageRequest
    ) -> tuple[list[RejectedRow], str]:
        """See `RecordReader.rejected`."""
        sql = (
            f"SELECT id,{_REJECTED_COLUMNS} FROM rejected WHERE id < ? AND (? = '' OR kind = ?)"
            " AND (? = '' OR reason = ?) ORDER BY id DESC LIMIT ?"
        )
        (before,) = cursor_numbers(page.cursor, 1) if page.cursor else (cells.FOREVER_MS,)
        limit = bounded(page.limit)
        found = self._rows(Statement(sql, [before, kind, kind, reason, reason, limit + 1]))
        rows = [_struct(RejectedRow, row[1:]) for row in found[:limit]]
        return rows, str(found[limit - 1][0]) if len(found) > limit else ""

    def rejected_record(self, record_id: str) -> RejectedRow | None:
        """See `RecordReader.rejected_record`."""
        sql = f"SELECT {_REJECTED_COLUMNS} FROM rejected WHERE record_id = ?"
        found = self._rows(Statement(sql, [record_id]))
        return _struct(RejectedRow, found[0]) if found else None

    def counts(self) -> Counts:
        """See `RecordReader.counts`. Kept in totals by the writer, so it costs the same at any
        size."""
        return counts_of(self._rows(Statement("SELECT * FROM totals")))

    def quality(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[QualityCell]:
        """See `RecordReader.quality`."""
        return cells.quality_cells(self._rows, from_ms, until_ms, kind)

    def quality_summary(self, *, from_ms: int, until_ms: int) -> QualitySummary:
        """See `RecordReader.quality_summary`."""
        span = [from_ms, until_ms or cells.FOREVER_MS]
        totals = self._rows(
            Statement(
                "SELECT kind, minute_ms, SUM(sent), SUM(MIN(valid, sent)) FROM quality"
                " WHERE minute_ms >= ? AND minute_ms < ? GROUP BY minute_ms, kind"
                " ORDER BY minute_ms, kind",
                span,
            )
        )
        missing = self._rows(
            Statement(
                "SELECT kind, camera_ip, minute_ms, SUM(accepted - arrived) FROM quality"
                " WHERE minute_ms >= ? AND minute_ms < ? AND accepted > arrived"
                " GROUP BY minute_ms, kind, camera_ip ORDER BY minute_ms, kind, camera_ip LIMIT ?",
                [*span, MAX_MISSING],
            )
        )
        return QualitySummary(
            [MinuteQuality(*row) for row in totals], [MissingCell(*row) for row in missing]
        )

    def missing_records(self, *, from_ms: int, until_ms: int) -> list[QualityCell]:
        """See `RecordReader.missing_records`."""
        return cells.quality_cells(self._rows, from_ms, until_ms, only_missing=True)

    def latency_cells(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[LatencyCell]:
        """See `RecordReader.latency_cells`."""
        return cells.latency_cells(self._rows, from_ms, until_ms, kind)

    def quality_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = ""
    ) -> list[QualitySum]:
        """See `RecordReader.quality_sums`."""
        return cells.quality_sums(self._rows, step_ms, from_ms, until_ms, kind, camera_ip)

    def quality_devices(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = "",
        limit: int,
    ) -> QualityDevices:  # fmt: skip
        """See `RecordReader.quality_devices`."""
        return cells.quality_devices(self._rows, step_ms, from_ms, until_ms, kind, camera_ip, limit)

    def latency_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, scope: str, district_id: str = ""
    ) -> list[LatencyCell]:
        """See `RecordReader.latency_sums`."""
        return cells.latency_sums(self._rows, scope, step_ms, from_ms, until_ms, district_id)

    def device_latency(
        self, *, from_ms: int, until_ms: int, camera_ip: str, districts: Sequence[str]
    ) -> list[LatencyCell]:
        """See `RecordReader.device_latency`."""
        return cells.device_latency(self._rows, from_ms, until_ms, camera_ip, districts)

    def segments(
        self, camera_ip: str, *, from_ms: int, until_ms: int, limit: int
    ) -> list[VideoSegment]:
        """See `RecordReader.segments`."""
        span = (camera_ip, until_ms or cells.FOREVER_MS)
        with sqlite_errors(self.path):
            connection = self._connection()
            if connection is None:
                return []
            rows = connection.execute(
                "SELECT body FROM video_segments WHERE camera_ip = ? AND start_ms < ?"
                " ORDER BY start_ms DESC, segment_id DESC", span,
            )  # fmt: skip
            newest_first = (_SEGMENTS.decode(body) for (body,) in rows)
            return list(islice(spanning(newest_first, from_ms), bounded(limit)))[::-1]

    def positions(self, application: str) -> list[Position]:
        """See `RecordReader.positions`."""
        sql = (
            "SELECT application, cluster_id, topic, topic_id, partition, end_offset FROM positions"
            " WHERE application = ? ORDER BY topic, partition"
        )
        found = self._rows(Statement(sql, [application]))
        return [_struct(Position, (*row, -1)) for row in found]

    def newest_attempt(self) -> int:
        """See `RecordReader.newest_attempt`."""
        found = self._rows(Statement("SELECT newest FROM attempts", []))
        return int(found[0][0]) if found else 0

    def clocks(self) -> dict[str, int]:
        """See `RecordReader.clocks`."""
        return dict(self._rows(Statement("SELECT camera_ip, off_ms FROM clocks", [])))

    def close(self) -> None:
        """Close the connections of all threads; no call may be running."""
        with self._connections_lock:
            while self._connections:
                self._connections.pop().close()
            self._local = threading.local()

    def _rows(self, statement: Statement) -> list[tuple[Any, ...]]:
        with sqlite_errors(self.path):
            connection = self._connection()
            if connection is None:
                return []
            if statement.asked is not None:
                add_tolerance(connection, statement.asked)
            return connection.execute(statement.sql, statement.values).fetchall()

    def _connection(self) -> sqlite3.Connection | None:
        """This thread's connection; None while there is no store yet."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None and self.path.exists():
            connection = self._connect()
        return connection

    def _connect(self) -> sqlite3.Connection | None:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10
        )
        if version_of(connection) < VERSION:  # its writer is just creating it, or bringing it up
            connection.close()
            return None
        add_functions(connection)
        with self._connections_lock:
            self._connections.append(connection)
        self._local.connection = connection
        return connection


def _struct(kind: type[_Row], values: Sequence[object]) -> _Row:
    """A row as its struct; SQLite keeps booleans as numbers."""
    return msgspec.convert(
        dict(zip(kind.__struct_fields__, values, strict=True)),
        kind,
        strict=False,
        builtin_types=(bytes,),
    )
