"""Increments of quality cells, as a store adds them. Pure.

In: rows, those of them that were new, counters of senders and edges. Out: `QualityCell`s that hold
increments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from bus.contracts.meters import CumulativeCount, QualityCell
from ingest.store.port import CellKey, QualitySum, RecordRow


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


def stored_cells(rows: Sequence[RecordRow], new: Sequence[RecordRow]) -> list[QualityCell]:
    """Of the records that came, those that were new, and those that were there already."""
    stored = Counter(row.quality_key for row in new)
    again = Counter(row.quality_key for row in rows) - stored if len(rows) > len(new) else Counter()
    return [
        msgspec.structs.replace(empty_cell(key), stored=stored[key], duplicates=again[key])
        for key in stored.keys() | again.keys()
    ]


def counted_cell(counter: CumulativeCount, more: int) -> QualityCell:
    """So many more were sent, or were taken by an edge."""
    return msgspec.structs.replace(empty_cell(key_of(counter)), **{counter.adds_to: more})


def accepted_by_kind(cells: Iterable[QualityCell] | Iterable[QualitySum]) -> dict[str, int]:
    """Of increments: what edges say that they took."""
    found: Counter[str] = Counter()
    for cell in cells:
        if cell.accepted:
            found[cell.kind] += cell.accepted
    return dict(found)


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
        duplicates=one.duplicates + other.duplicates,
        rejected=dict(Counter(one.rejected) + Counter(other.rejected)),
    )
