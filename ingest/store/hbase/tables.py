"""The tables: one for each class of data, so that each ages by itself.

In: days to keep. Out: names, the options of their one family, and what HBase's shell is told to
make them in several regions, which Thrift cannot. Never: HBase. Columns: `columns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.contracts.topics import DAY_MS
from bus.domain.kinds import KIND_AS_STORED, KINDS
from bus.domain.retention import RetentionSettings
from ingest.store.hbase import aggregates
from ingest.store.hbase.keys import SALTS, cell_kind, parts_of

CLASSES = tuple(KINDS)
"""Of valid records, with the entries of the indexes by which they are found and their number in
each minute: what is found by an entry ages with it."""
REJECTED = "rejected"
SEGMENTS = "segments"
"""What is kept of films; a row ages with the charts, whatever becomes of the film."""
CELLS, LEDGER = "cells", "ledger"
"""What the charts show, which ages; the ledger, the totals and the clocks, which never do."""
FORMER = ("records", "index", "books")
"""Tables of an earlier version of this program, which this one does not read."""

# Thrift's own defaults are no block cache, three versions, no bloom filter, no compression.
_OPTIONS = {
    "max_versions": 1,
    "block_cache_enabled": True,
    "bloom_filter_type": "ROW",
    "compression": "SNAPPY",
}
FOREVER_S = (1 << 31) - 1  # as HBase writes it
FAMILY = "d"
REGIONS = (1, 2, 4, 8, SALTS)
"""Into how many regions a table may be divided beforehand: each takes the same number of salts."""


def class_of(kind: str) -> str:
    """The table of records that are stored as this kind. Raises `KeyError` for no kind."""
    return KIND_AS_STORED[kind]


def time_to_live_s(keep: RetentionSettings) -> Mapping[str, int]:
    """Every table, and after how many seconds a row leaves it."""
    days = {
        kind.name: _longest([keep.record_days(stored) for stored in kind.stored_as])
        for kind in KINDS.values()
    }
    days |= {REJECTED: keep.rejected_days, SEGMENTS: keep.books_days}
    days |= {CELLS: keep.books_days, LEDGER: 0}
    return {
        name: min(keep_days * DAY_MS // 1000, FOREVER_S) if keep_days else FOREVER_S
        for name, keep_days in days.items()
    }


def options(keep: RetentionSettings) -> Mapping[str, Mapping[str, Any]]:
    """The tables with the options of their family."""
    return {
        name: _OPTIONS | {"time_to_live": seconds}
        for name, seconds in time_to_live_s(keep).items()
    }


def create_statements(name: str, keep: RetentionSettings, regions: int = SALTS) -> list[str]:
    """What HBase's shell makes all tables of a store with, one statement each. `regions`: one of
    `REGIONS`; the ledger, of a few rows, has one."""
    step = SALTS // regions
    splits = ", ".join(f'"\\x{salt:02x}"' for salt in range(step, SALTS, step))
    found = []
    for table, own in options(keep).items():
        family = (
            f"{{NAME => '{FAMILY}', VERSIONS => {own['max_versions']}, BLOCKCACHE => true,"
            f" BLOOMFILTER => '{own['bloom_filter_type']}', COMPRESSION => '{own['compression']}',"
            f" TTL => {own['time_to_live']}}}"
        )
        divided = f", SPLITS => [{splits}]" if splits and table != LEDGER else ""
        found.append(f"create '{name}_{table}', {family}{divided}")
    return found


def table_of_cell(key: bytes) -> str:
    """Where a cell lies."""
    kind = cell_kind(key)
    if kind in (aggregates.TOTAL, aggregates.CLOCKS):
        return LEDGER
    if kind == aggregates.CAPTURED:
        _, stored_as = parts_of(key, "ns")
        return class_of(stored_as)
    return CELLS


def _longest(days: list[int]) -> int:
    return max(days) if all(days) else 0
