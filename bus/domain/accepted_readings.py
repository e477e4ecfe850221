"""Examples of what a rule for a fuzzy plate accepts: its cheapest misreadings. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.fuzzy_plate import FuzzyPlate
from bus.domain.misreading_prices import MisreadingPrices
from bus.domain.plates import UNREAD

USUAL_EXAMPLES = 5


def accepted_readings(
    wanted: FuzzyPlate, prices: MisreadingPrices, most: int = USUAL_EXAMPLES
) -> list[str]:
    """Readings of the plate by one edit that was measured, the cheapest first."""
    cheapest: dict[str, float] = {}
    for price, read in _misreadings(wanted.plate, prices):
        if price <= wanted.highest:
            cheapest[read] = min(price, cheapest.get(read, price))
    return sorted(cheapest, key=lambda read: (cheapest[read], read))[:most]


def _misreadings(plate: str, prices: MisreadingPrices) -> Iterator[tuple[float, str]]:
    for at, true in enumerate(plate):
        before, behind = plate[:at], plate[at + 1 :]
        for read in (*prices.taken_for.get(true, ()), UNREAD):
            yield prices.substitution(true, read), f"{before}{read}{behind}"
        yield prices.deletion(true), f"{before}{behind}"
