"""Rows by the index: the entries that count, newest first, and the rows they name.

Never gives a row of an attempt that does not count. Core: `search`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from bus.domain.plates import folded
from ingest.store.hbase import columns, keys
from ingest.store.hbase.columns import IndexEntry
from ingest.store.hbase.connection import ROWS_PER_CALL, ThriftSession
from ingest.store.hbase.keys import BEHIND_ALL, Facet
from ingest.store.hbase.search import (
    MOST_PLACES_OF_AREA,
    WITH_PLATE,
    AccessPath,
    Range,
    choose_access_path,
    is_covered_by_index,
    matches,
    may_match,
    ranges,
    tables_of,
)
from ingest.store.hbase.tables import REJECTED
from ingest.store.port import Query, RecordRow, RejectedRow

FEWEST_PER_CALL = 20  # entries; a page of few rows is read from sixteen places

StoredRow = TypeVar("StoredRow", RecordRow, RejectedRow)
Found = tuple[int, str, str]
"""Moment (negative), identity and table of an entry."""


class IndexScan:
    """One question while its line is borrowed: rows and entries that count, newest first."""

    def __init__(self, session: ThriftSession, query: Query, reason: str = "") -> None:
        """`reason`: of rejected records; empty for any."""
        self._session = session
        self._query = query
        self._reason = reason
        self._ledger, _ = columns.read_ledger(session)
        self._tables = tables_of(query)
        self.path = choose_access_path(query, self._checkpoints())

    def by_identity(self) -> list[RecordRow]:
        """The record of the identity asked for, if it is all that is asked for; one of each class,
        if several devices' records share it."""
        key = keys.row_key(self._query.record_id)
        found = (self._session.get(table, key) for table in self._tables)
        rows = (columns.record_of(key, row) for row in found if self._counts(row))
        return [row for row in rows if matches(self._query, row)]

    def rejected_by_identity(self, record_id: str) -> RejectedRow | None:
        """The rejected record of an identity."""
        key = keys.row_key(record_id)
        row = self._session.get(REJECTED, key)
        return columns.rejected_of(key, row) if self._counts(row) else None

    def records(self, cursor: str, at_once: int) -> Iterator[RecordRow]:
        """The records that match."""
        found = self._rows(self._tables, self._where(cursor), at_once, columns.record_of)
        return (row for row in found if matches(self._query, row))

    def rejected(self, cursor: str, at_once: int) -> Iterator[RejectedRow]:
        """Rejected records of the query's kind and of the reason."""
        where = ranges(AccessPath(), cursor=cursor)
        return self._rows((REJECTED,), where, at_once, columns.rejected_of)

    def count(self) -> int:
        """How many match; where the index tells it, no record is read."""
        if is_covered_by_index(self._query, self.path):
            return sum(1 for _ in self._entries(self._tables, self._where(""), ROWS_PER_CALL))
        return sum(1 for _ in self.records("", ROWS_PER_CALL))

    def plates(self, part: str, most: int) -> tuple[dict[str, None], int | None]:
        """Plates that hold a part among the `most` newest entries, the latest seen first, and since
        when all were looked at (None: for ever). No record is read."""
        found: dict[str, None] = {}
        newest = heapq.merge(
            *(self._plates_of(table, one) for table in WITH_PLATE for one in self._where(""))
        )
        for number, (moment_ms, plate) in enumerate(newest):
            if number == most:
                return found, 1 - moment_ms
            if part in plate:
                found[plate] = None
        return found, None

    def _plates_of(self, table: str, one: Range) -> Iterator[tuple[int, str]]:
        """Moment (negative) and plate of every entry that counts."""
        for key, raw in self._session.scan(table, one.start, one.stop, ROWS_PER_CALL):
            entry = columns.entry_of(raw)
            if entry.plate_key and self._ledger.counts(entry.attempt):
                yield -keys.moment_of(key, one.prefix), folded(entry.plate_key)

    def _rows(
        self,
        tables: Sequence[str],
        where: Sequence[Range],
        at_once: int,
        row_of: Callable[[bytes, Any], StoredRow],
    ) -> Iterator[StoredRow]:
        """The rows that the entries name, fetched so many at once."""
        at_once = min(at_once + 1, ROWS_PER_CALL)
        places = max(len(where) * len(tables), 1)
        entries = self._entries(tables, where, max(at_once // places, FEWEST_PER_CALL))
        while some := list(islice(entries, at_once)):
            found: dict[tuple[str, bytes], Any] = {}
            for table in tables:
                wanted = [keys.row_key(identity) for _, identity, own in some if own == table]
                read = self._session.get_many(table, wanted) if wanted else {}
                found |= {(table, key): row for key, row in read.items()}
            for _, identity, table in some:
                key = keys.row_key(identity)
                if row := found.get((table, key)):
                    yield row_of(key, row)

    def _checkpoints(self) -> tuple[str, ...] | None:
        area = self._query.area
        if self._query.camera_ip:
            return self._seen_at((self._query.camera_ip,))
        if area is None or area.place_count > MOST_PLACES_OF_AREA:
            return None
        seen_at = self._seen_at(sorted(area.own_devices))
        return tuple(dict.fromkeys((*sorted(area.checkpoints), *seen_at)))

    def _seen_at(self, cameras: Iterable[str]) -> tuple[str, ...]:
        rows = (
            keys.checkpoint_of(key, prefix)
            for table in self._tables
            for camera in cameras
            for prefix in keys.prefixes(Facet.CAMERA, camera)
            for key, _ in self._session.scan(table, prefix, prefix + BEHIND_ALL, ROWS_PER_CALL)
        )
        return tuple(dict.fromkeys(rows))

    def _where(self, cursor: str) -> list[Range]:
        query = self._query
        return ranges(self.path, query.captured_from_ms, query.captured_until_ms, cursor)

    def _entries(
        self, tables: Sequence[str], where: Sequence[Range], rows_per_call: int
    ) -> Iterator[Found]:
        """All entries that count, newest first."""
        return heapq.merge(
            *(self._entries_of(table, one, rows_per_call) for table in tables for one in where)
        )

    def _entries_of(self, table: str, one: Range, rows_per_call: int) -> Iterator[Found]:
        for key, entry in self._session.scan(table, one.start, one.stop, rows_per_call):
            if self._is_wanted(columns.entry_of(entry)):
                yield -keys.moment_of(key, one.prefix), keys.identity_of(key, one.prefix), table

    def _is_wanted(self, entry: IndexEntry) -> bool:
        return (
            self._ledger.counts(entry.attempt)
            and self._reason in ("", entry.reason)
            and may_match(self._query, entry)
        )

    def _counts(self, row: Mapping[bytes, bytes]) -> bool:
        """Whether there is a row, and it is part of the store."""
        return bool(row) and self._ledger.counts(columns.attempt_of(row))
