"""Examples of what a rule for a fuzzy plate accepts: its most frequent misreadings. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.fuzzy_plate import FuzzyPlate
from bus.domain.misreading_prices import UNSAID
from bus.domain.plate_confusion import DROPPED

USUAL_EXAMPLES = 5


def accepted_readings(
    wanted: FuzzyPlate, most: int = USUAL_EXAMPLES, confusion: ConfusionTable = PACKAGED
) -> list[str]:
    """Readings of the plate by one edit that was counted, the most frequent first; the reader
    says nothing of its characters."""
    frequent: dict[str, float] = {}
    for share, price, read in _misreadings(wanted.plate, confusion):
        if price <= wanted.highest:
            frequent[read] = max(share, frequent.get(read, share))
    return sorted(frequent, key=lambda read: (-frequent[read], read))[:most]


def _misreadings(plate: str, confusion: ConfusionTable) -> Iterator[tuple[float, float, str]]:
    prices = confusion.prices
    for at, true in enumerate(plate):
        before, behind = plate[:at], plate[at + 1 :]
        row = confusion.counts.rows.get(true, {})
        total = sum(row.values())
        for read, count in row.items():
            if read == DROPPED:
                yield count / total, prices.deletion(true), f"{before}{behind}"
            elif read != true:
                price = prices.substitution(true, read, UNSAID)
                yield count / total, price, f"{before}{read}{behind}"
