"""Totals of a store as the account reads them. Pure.

In: the rows of the totals, as either store keeps them; cells. Out: `Counts`, `QualitySummary`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bus.contracts.meters import QualityCell
from ingest.store.port import (
    MAX_MISSING,
    Counts,
    MinuteQuality,
    MissingCell,
    QualitySummary,
)

STORED, DUPLICATES = "stored", "duplicates"
REJECTED, REJECTED_DUPLICATES = "rejected", "rejected duplicates"

Total = tuple[str, str, str, int]
"""What is counted, of which kind, for which reason (rejected ones only), how many."""


def counts_of(totals: Iterable[Total]) -> Counts:
    """All of them in their places."""
    rejected: dict[str, dict[str, int]] = {}
    plain: dict[str, dict[str, int]] = {STORED: {}, DUPLICATES: {}, REJECTED_DUPLICATES: {}}
    for name, kind, reason, count in totals:
        if name == REJECTED:
            rejected.setdefault(kind, {})[reason] = count
        else:
            plain[name][kind] = count
    return Counts(
        stored=plain[STORED],
        rejected=rejected,
        duplicates=plain[DUPLICATES],
        rejected_duplicates=plain[REJECTED_DUPLICATES],
    )


def quality_summary(cells: Iterable[QualityCell]) -> QualitySummary:
    """Cells over all devices, for a store that cannot add them up by itself."""
    minutes: dict[tuple[int, str], list[int]] = {}
    missing: dict[tuple[int, str, str], int] = {}
    for cell in cells:
        total = minutes.setdefault((cell.minute_ms, cell.kind), [0, 0])
        total[0] += cell.sent
        total[1] += min(cell.valid, cell.sent)
        slot = (cell.minute_ms, cell.kind, cell.camera_ip)
        if cell.missing and (slot in missing or len(missing) < MAX_MISSING):
            missing[slot] = missing.get(slot, 0) + cell.missing
    return QualitySummary(
        [MinuteQuality(kind, at, *total) for (at, kind), total in sorted(minutes.items())],
        [MissingCell(kind, ip, at, n) for (at, kind, ip), n in sorted(missing.items())],
    )
