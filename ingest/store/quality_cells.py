"""Increments of quality cells, as a store adds them. Pure.

In: rows that were new, counters of senders and edges. Out: `QualityCell`s that hold increments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from bus.contracts.meters import CumulativeCount, QualityCell
from ingest.store.port import CellKey, RecordRow


def key_of(cell: CumulativeCount | QualityCell) -> CellKey:
    """The device, server and capture minute something counts for."""
    return cell.kind, cell.camera_ip, cell.recognizer_ip, cell.minute_ms


def empty_cell(key: CellKey) -> QualityCell:
    """A cell in which nothing is counted."""
    kind, camera_ip, recognizer_ip, minute_ms = key
    return QualityCell(
        kind=kind, camera_ip=camera_ip, recognizer_ip=recognizer_ip, minute_ms=minute_ms,
        sent=0, arrived=0, valid=0, rejected={},
    )  # fmt: skip


def stored_cells(new: Iterable[RecordRow]) -> list[QualityCell]:
    """Records that were new."""
    counts = Counter(row.quality_key for row in new)
    return [msgspec.structs.replace(empty_cell(key), stored=count) for key, count in counts.items()]


def counted_cell(counter: CumulativeCount, more: int) -> QualityCell:
    """So many more were sent, or were taken by an edge."""
    return msgspec.structs.replace(empty_cell(key_of(counter)), **{counter.adds_to: more})


def merged_cells(cells: Iterable[QualityCell]) -> list[QualityCell]:
    """One increment for each cell."""
    merged: dict[CellKey, QualityCell] = {}
    for cell in cells:
        key = key_of(cell)
        there = merged.get(key)
        merged[key] = cell if there is None else _sum(there, cell)
    return list(merged.values())


def _sum(one: QualityCell, other: QualityCell) -> QualityCell:
    return msgspec.structs.replace(
        one,
        sent=one.sent + other.sent,
        arrived=one.arrived + other.arrived,
        valid=one.valid + other.valid,
        partly_read=one.partly_read + other.partly_read,
        stored=one.stored + other.stored,
        accepted=one.accepted + other.accepted,
        rejected=dict(Counter(one.rejected) + Counter(other.rejected)),
    )
