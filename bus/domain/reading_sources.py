"""Which characters of a reading may be misread ones, and of what: the cheap cases. Pure.

In: a reading, how sure its reader is. Out: the corrections with their prices, and how cheap any
edit of a character of the reading may be. Never: a correction that costs more than asked for; a
character too few or too many, which is never that cheap; two edits.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.misreading_prices import (
    LEAST,
    LEAST_OF_PLACE,
    UNSAID,
    MisreadingPrices,
)
from bus.domain.plates import PROVINCES, UNREAD
from bus.domain.reading_price import Bands

_Rows = dict[str, list[tuple[float, str]]]
"""Character that was read -> price and character of plates that it is cheap to be taken for."""


class ReadingSources:
    """For one price, which must be below that of a character too few or too many.

    A plate has a province's character at its beginning only (`fuzzy_plate`); in a reading it may be
    the second if another was put before it."""

    def __init__(self, prices: MisreadingPrices, highest: float) -> None:
        if highest >= LEAST_OF_PLACE:
            raise ValueError(f"{highest}: a character too few or too many costs {LEAST_OF_PLACE}")
        self._begin = [_rows(prices, highest, band) for band in range(UNSAID + 1)]
        self._inside = [
            {read: [one for one in row if one[1] not in PROVINCES] for read, row in rows.items()}
            for rows in self._begin
        ]
        self._least_first = [_lowest_prices(prices, band) for band in range(UNSAID + 1)]
        self._prices = prices
        self._inserted_before = 2 * highest - LEAST

    def lowest_first(self, read: str, bands: Bands) -> float:
        """The lowest price at which the first character is taken for any other at all."""
        return self._least_first[bands[0]].get(read[0], self._prices.unknown[bands[0]])

    def of(self, read: str, bands: Bands) -> Iterator[tuple[float, int, str]]:
        """Of each place behind the first the price, the place of the reading, and the character
        that was taken for its own."""
        for at in range(1, len(read)):
            is_begin = at == 1 and self._prices.insertion(read[0]) <= self._inserted_before
            rows = (self._begin if is_begin else self._inside)[bands[at]]
            for price, true in rows.get(read[at], ()):
                yield price, at, true


def _rows(prices: MisreadingPrices, highest: float, band: int) -> _Rows:
    found: _Rows = {}
    for true, row in prices.taken_for[band].items():
        for read in (*row, UNREAD):
            price = prices.substitution(true, read, band)
            if price <= highest:
                found.setdefault(read, []).append((price, true))
    return found


def _lowest_prices(prices: MisreadingPrices, band: int) -> dict[str, float]:
    """By character that was read, for whichever it is cheapest to be taken for."""
    found = dict.fromkeys((UNREAD,), prices.unknown[band])
    for true, row in prices.taken_for[band].items():
        for read in (*row, UNREAD):
            price = prices.substitution(true, read, band)
            found[read] = min(price, found.get(read, prices.unknown[band]))
    return found


def sources_inside(
    prices: MisreadingPrices, highest: float, band: int
) -> dict[str, tuple[tuple[float, str], ...]]:
    """By character that was read behind the first, those that it may be at no more than that, the
    cheapest first; what has no evidence is not among them, nor is a province."""
    return {
        read: tuple(sorted(one for one in row if one[1] not in PROVINCES))
        for read, row in _rows(prices, highest, band).items()
    }
