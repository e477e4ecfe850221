"""Rows by the index: the entries that count, newest first, and the rows they name.

Never gives a row of an attempt that does not count. Core: `search`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from ingest.store.hbase import keys, tables
from ingest.store.hbase.connection import ROWS_PER_CALL, ThriftSession
from ingest.store.hbase.keys import Facet
from ingest.store.hbase.search import (
    BEHIND_ALL,
    AccessPath,
    Range,
    choose_access_path,
    is_covered_by_index,
    matches,
    may_match,
    ranges,
)
from ingest.store.hbase.tables import IndexEntry
from ingest.store.port import Query, RecordRow, RejectedRow

FEWEST_PER_CALL = 20  # entries; a page of few rows is read from sixteen places

Kept = TypeVar("Kept", RecordRow, RejectedRow)


class IndexScan:
    """One question while its line is borrowed: rows and entries that count, newest first."""

    def __init__(self, session: ThriftSession, query: Query, reason: str = "") -> None:
        """`reason`: of rejected records; empty for any."""
        self._session = session
        self._query = query
        self._reason = reason
        self._ledger, _ = tables.read_ledger(session)
        self.path = choose_access_path(query, self._checkpoints())

    def by_identity(self) -> list[RecordRow]:
        """The record of the identity asked for, if it is all that is asked for."""
        columns = self._session.get(tables.RECORDS, keys.record_key(self._query.record_id))
        if not columns or not self._ledger.counts(tables.mark_of(columns).attempt):
            return []
        row = tables.record_of(columns)
        return [row] if matches(self._query, row) else []

    def rejected_by_identity(self, record_id: str) -> RejectedRow | None:
        """The rejected record of an identity."""
        columns = self._session.get(tables.RECORDS, keys.rejected_key(record_id))
        if not columns or not self._ledger.counts(tables.mark_of(columns).attempt):
            return None
        return tables.rejected_of(columns)

    def records(self, cursor: str, at_once: int) -> Iterator[RecordRow]:
        """The records that match."""
        found = self._rows(keys.record_key, self._where(cursor), at_once, tables.record_of)
        return (row for row in found if matches(self._query, row))

    def rejected(self, cursor: str, at_once: int) -> Iterator[RejectedRow]:
        """Rejected records of the query's kind and of the reason."""
        where = ranges(AccessPath(Facet.REJECTED), cursor=cursor)
        return self._rows(keys.rejected_key, where, at_once, tables.rejected_of)

    def count(self) -> int:
        """How many match; where the index tells it, no record is read."""
        if is_covered_by_index(self._query, self.path):
            return sum(1 for _ in self._entries(self._where(""), ROWS_PER_CALL))
        return sum(1 for _ in self.records("", ROWS_PER_CALL))

    def plates(self, part: str, most: int) -> tuple[dict[str, None], int | None]:
        """Plates that hold a part among the `most` newest entries, the latest seen first, and since
        when all were looked at (None: for ever). No record is read."""
        found: dict[str, None] = {}
        newest = heapq.merge(*(self._plates_of(one) for one in self._where("")))
        for number, (moment_ms, plate) in enumerate(newest):
            if number == most:
                return found, 1 - moment_ms
            if part in plate:
                found[plate] = None
        return found, None

    def _plates_of(self, one: Range) -> Iterator[tuple[int, str]]:
        """Moment (negative) and plate of every entry that counts."""
        for key, raw in self._session.scan(tables.INDEX, one.start, one.stop, ROWS_PER_CALL):
            entry = tables.entry_of(raw)
            if entry.plate_key and self._ledger.counts(entry.attempt):
                yield -keys.moment_of(key, one.prefix), entry.plate_key

    def _rows(
        self,
        key_of: Callable[[str], bytes],
        where: Sequence[Range],
        at_once: int,
        row_of: Callable[[Any], Kept],
    ) -> Iterator[Kept]:
        """The rows that the entries name, fetched so many at once."""
        at_once = min(at_once + 1, ROWS_PER_CALL)
        entries = self._entries(where, max(at_once // max(len(where), 1), FEWEST_PER_CALL))
        while some := [identity for _, identity in islice(entries, at_once)]:
            wanted = [key_of(identity) for identity in some]
            found = self._session.get_many(tables.RECORDS, wanted)
            yield from (row_of(found[key]) for key in wanted if key in found)

    def _checkpoints(self) -> tuple[str, ...] | None:
        if not self._query.camera_ip:
            return None
        prefix = keys.camera_prefix(self._query.camera_ip)
        rows = self._session.scan(tables.INDEX, prefix, prefix + BEHIND_ALL, ROWS_PER_CALL)
        return tuple(keys.checkpoint_of(key, prefix) for key, _ in rows)

    def _where(self, cursor: str) -> list[Range]:
        query = self._query
        return ranges(self.path, query.captured_from_ms, query.captured_until_ms, cursor)

    def _entries(self, where: Sequence[Range], rows_per_call: int) -> Iterator[tuple[int, str]]:
        """Moment (negative) and identity of all entries that count, newest first."""
        return heapq.merge(*(self._entries_of(one, rows_per_call) for one in where))

    def _entries_of(self, one: Range, rows_per_call: int) -> Iterator[tuple[int, str]]:
        for key, entry in self._session.scan(tables.INDEX, one.start, one.stop, rows_per_call):
            if self._is_wanted(tables.entry_of(entry)):
                yield -keys.moment_of(key, one.prefix), keys.identity_of(key, one.prefix)

    def _is_wanted(self, entry: IndexEntry) -> bool:
        return (
            self._ledger.counts(entry.attempt)
            and self._reason in ("", entry.reason)
            and may_match(self._query, entry)
        )
