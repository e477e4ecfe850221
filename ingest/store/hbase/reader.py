"""The city's store, read side: pages, totals and series as of the ledger's last commit.

As long as no writer has made the tables, everything is empty: nothing has been stored. Core:
`keys`, `ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.video_segments import VideoSegment
from bus.domain.confusion_table import ReadConfusion, packaged
from bus.domain.kinds import KIND_AS_STORED
from bus.domain.plates import folded
from bus.domain.times import MINUTE_MS
from ingest.store.hbase import aggregates, columns, keys, tables
from ingest.store.hbase.chart_sums import ChartSums
from ingest.store.hbase.connection import (
    ROWS_PER_CALL,
    HbaseConnection,
    TableMissing,
    ThriftSession,
)
from ingest.store.hbase.index_scan import IndexScan
from ingest.store.hbase.ledger import Ledger, value
from ingest.store.hbase.search import edges, whole_minutes
from ingest.store.port import (
    Counts,
    PageRequest,
    PlatesFound,
    Position,
    QualityDevices,
    QualitySum,
    QualitySummary,
    Query,
    RecordRow,
    RejectedRow,
    priced,
)
from ingest.store.segments import spanning
from ingest.store.totals import counts_of, quality_summary

MAX_PLATES_SCANNED = 100_000  # by one search for a part of a plate; entries come over a line
MAX_PAGE_ROWS = 10_000  # a page is held in memory; more is asked for page by page
_FOREVER_MS = 1 << 62

Found = TypeVar("Found")
StoredRow = TypeVar("StoredRow", RecordRow, RejectedRow)


class HbaseReader:
    """Any number of these may read beside the one writer."""

    def __init__(
        self, hbase: HbaseConnection, read_confusion: ReadConfusion = packaged
    ) -> None:
        """`read_confusion`: the table of misreadings that searches go by."""
        self._hbase = hbase
        self._read_confusion = read_confusion

    def query(self, query: Query, page: PageRequest) -> tuple[list[RecordRow], str]:
        """See `RecordReader.query`."""
        limit, query = _bounded(page.limit), priced(query, self._read_confusion)

        def read(line: ThriftSession) -> tuple[list[RecordRow], bool]:
            finder = IndexScan(line, query)
            if query.record_id:
                return finder.by_identity(), False
            return _paged(finder.records(page.cursor, limit), limit)

        nothing: tuple[list[RecordRow], bool] = ([], False)
        rows, more = self._read(read, nothing)
        return rows, f"{rows[-1].captured_at_ms}.{rows[-1].record_id}" if more else ""

    def count(self, query: Query) -> int:
        """See `RecordReader.count`."""

        span = whole_minutes(query)
        if span is None:
            return self._found(query)
        kinds = [kind for kind in KIND_AS_STORED if query.kind in ("", kind)]
        start, stop = (keys.number(moment_ms) for moment_ms in span)
        cells = self._cells_between(
            [(tables.class_of(kind), keys.salt(kind) + aggregates.CAPTURED) for kind in kinds],
            start, stop,
        )  # fmt: skip
        whole = sum(
            numbers.get(aggregates.COUNT, 0)
            for key, numbers in cells if keys.parts_of(key, "ns")[1] in kinds
        )  # fmt: skip
        return whole + sum(self._found(edge) for edge in edges(query, span))

    def _found(self, query: Query) -> int:
        query = priced(query, self._read_confusion)

        def read(line: ThriftSession) -> int:
            finder = IndexScan(line, query)
            return len(finder.by_identity()) if query.record_id else finder.count()

        return self._read(read, 0)

    def plates_containing(
        self, part: str, *, limit: int = 20, most: int = MAX_PLATES_SCANNED
    ) -> PlatesFound:
        """See `RecordReader.plates_containing`; looks at the `most` newest entries."""
        key = folded(part)
        nothing: tuple[dict[str, None], int | None] = ({}, None)
        if not key:
            return PlatesFound(plates=())
        found, since_ms = self._read(
            lambda line: IndexScan(line, Query()).plates(key, most), nothing
        )
        return PlatesFound(plates=list(islice(found, _bounded(limit))), since_ms=since_ms)

    def rejected(
        self, *, kind: str, reason: str, page: PageRequest
    ) -> tuple[list[RejectedRow], str]:
        """See `RecordReader.rejected`."""
        limit = _bounded(page.limit)

        def read(line: ThriftSession) -> tuple[list[RejectedRow], bool]:
            finder = IndexScan(line, Query(kind=kind), reason)
            return _paged(finder.rejected(page.cursor, limit), limit)

        nothing: tuple[list[RejectedRow], bool] = ([], False)
        rows, more = self._read(read, nothing)
        return rows, f"{rows[-1].stored_at_ms}.{rows[-1].record_id}" if more else ""

    def rejected_record(self, record_id: str) -> RejectedRow | None:
        """See `RecordReader.rejected_record`."""

        def read(line: ThriftSession) -> RejectedRow | None:
            return IndexScan(line, Query()).rejected_by_identity(record_id)

        return self._read(read, None)

    def counts(self) -> Counts:
        """See `RecordReader.counts`."""
        where = [(tables.LEDGER, keys.salt("") + aggregates.TOTAL)]
        found = self._cells_between(where, b"", keys.BEHIND_ALL)
        return counts_of(
            (*keys.parts_of(key, "sss"), numbers[aggregates.COUNT])
            for key, numbers in found
            if numbers
        )

    def quality(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[QualityCell]:
        """See `RecordReader.quality`."""
        found = self._numbers(aggregates.QUALITY, from_ms, until_ms)
        cells = (aggregates.quality_cell_of(key, numbers) for key, numbers in found)
        return [cell for cell in cells if kind in ("", cell.kind)]

    def quality_summary(self, *, from_ms: int, until_ms: int) -> QualitySummary:
        """See `RecordReader.quality_summary`: minute by minute, so that memory holds one."""
        begins = range(from_ms, until_ms, MINUTE_MS)
        return quality_summary(
            cell
            for begin_ms in begins
            for cell in self.quality(from_ms=begin_ms, until_ms=min(until_ms, begin_ms + MINUTE_MS))
        )

    def latency_cells(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[LatencyCell]:
        """See `RecordReader.latency_cells`."""
        found = self._numbers(aggregates.HISTOGRAM, from_ms, until_ms)
        cells = (aggregates.latency_cell_of(key, numbers) for key, numbers in found if numbers)
        return [cell for cell in cells if kind in ("", cell.kind)]

    def missing_records(self, *, from_ms: int, until_ms: int) -> list[QualityCell]:
        """See `RecordReader.missing_records`."""
        return [c for c in self.quality(from_ms=from_ms, until_ms=until_ms) if c.missing]

    def quality_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = ""
    ) -> list[QualitySum]:
        """See `RecordReader.quality_sums`."""
        return self._read(
            lambda line: ChartSums(line).quality(step_ms, from_ms, until_ms, kind, camera_ip), []
        )

    def quality_devices(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = "",
        limit: int,
    ) -> QualityDevices:  # fmt: skip
        """See `RecordReader.quality_devices`."""
        return self._read(
            lambda line: ChartSums(line).devices(
                step_ms, from_ms, until_ms, kind, camera_ip, limit
            ),
            QualityDevices(widest=(), total=0),
        )

    def latency_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, scope: str, district_id: str = ""
    ) -> list[LatencyCell]:
        """See `RecordReader.latency_sums`."""
        return self._read(
            lambda line: ChartSums(line).latency(step_ms, from_ms, until_ms, scope, district_id),
            [],
        )

    def device_latency(
        self, *, from_ms: int, until_ms: int, camera_ip: str, districts: Sequence[str]
    ) -> list[LatencyCell]:
        """See `RecordReader.device_latency`."""
        return self._read(
            lambda line: ChartSums(line).device_latency(from_ms, until_ms, camera_ip, districts),
            [],
        )

    def segments(
        self, camera_ip: str, *, from_ms: int, until_ms: int, limit: int
    ) -> list[VideoSegment]:
        """See `RecordReader.segments`."""
        prefix = keys.segment_prefix(camera_ip)
        start = prefix + keys.newest_first((until_ms or _FOREVER_MS) - 1)

        def read(line: ThriftSession) -> list[VideoSegment]:
            found = line.scan(tables.SEGMENTS, start, prefix + keys.BEHIND_ALL, ROWS_PER_CALL)
            newest_first = (columns.segment_of(cells) for _, cells in found)
            return list(islice(spanning(newest_first, from_ms), _bounded(limit)))[::-1]

        return self._read(read, [])

    def positions(self, application: str) -> list[Position]:
        """See `RecordReader.positions`."""
        ledger = self._read(lambda line: columns.read_ledger(line)[0], Ledger())
        found = [
            Position(
                application=a, cluster_id=c, topic=t, topic_id=i, partition=p, end_offset=end
            )
            for a, c, t, i, p, end in ledger.ends
            if a == application
        ]  # fmt: skip
        return sorted(found, key=lambda position: (position.topic, position.partition))

    def newest_attempt(self) -> int:
        """See `RecordReader.newest_attempt`."""
        return self._read(lambda line: columns.read_ledger(line)[0].committed, 0)

    def clocks(self) -> dict[str, int]:
        """See `RecordReader.clocks`."""

        def read(line: ThriftSession) -> dict[str, int]:
            ledger, _ = columns.read_ledger(line)
            found = line.get(tables.LEDGER, aggregates.clocks_key())
            return dict(value(columns.cell_of(found), ledger)) if found else {}

        return self._read(read, {})

    def close(self) -> None:
        """Close the connections; no call may be running."""
        self._hbase.close()

    def _read(self, work: Callable[[ThriftSession], Found], nothing: Found) -> Found:
        try:
            with self._hbase.session() as line:
                return work(line)
        except TableMissing:
            return nothing

    def _numbers(
        self, kind: bytes, from_ms: int, until_ms: int
    ) -> list[tuple[bytes, dict[str, int]]]:
        """Cells of the charts by minute, whatever their salt."""
        where = [(tables.CELLS, salt + kind) for salt in keys.ALL_SALTS]
        found = self._cells_between(where, keys.number(from_ms), _until(until_ms))
        return sorted(found, key=lambda cell: cell[0][1:])

    def _cells_between(
        self, where: Sequence[tuple[str, bytes]], start: bytes, stop: bytes
    ) -> list[tuple[bytes, dict[str, int]]]:
        """Keys and numbers of cells in tables, behind prefixes, between two ends of keys."""

        def read(line: ThriftSession) -> list[tuple[bytes, dict[str, int]]]:
            ledger, _ = columns.read_ledger(line)
            return [
                (key, dict(value(columns.cell_of(row), ledger)))
                for table, prefix in where
                for key, row in line.scan(table, prefix + start, prefix + stop, ROWS_PER_CALL)
            ]

        return self._read(read, [])


def _paged(rows: Iterator[StoredRow], limit: int) -> tuple[list[StoredRow], bool]:
    """A page, and whether there are more."""
    found = list(islice(rows, limit + 1))
    return found[:limit], len(found) > limit


def _bounded(limit: int) -> int:
    return min(max(limit, 1), MAX_PAGE_ROWS)


def _until(until_ms: int) -> bytes:
    return keys.number(until_ms or _FOREVER_MS)
