"""Which plates may have been misread as a reading in one cheap character. Pure.

In: a reading, what its reader says of each character. Out: texts. Never: one by an edit that costs
more than asked for; a character too few or too many, which is never that cheap; two edits.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.misreading_prices import LEAST_OF_PLACE, MisreadingPrices
from bus.domain.plate_confusion import BAND_MIDDLES, band_of
from bus.domain.plates import PROVINCES, UNREAD
from bus.domain.reading_price import Sure

_Rows = dict[str, str]
"""Character that was read -> characters of plates that are cheap to take for it."""


class ReadingSources:
    """For one price, which must be below that of a character too few or too many.

    A plate has a province's character at its beginning only (`fuzzy_plate`), which another edit
    moves by one place at most."""

    def __init__(self, prices: MisreadingPrices, highest: float) -> None:
        if highest >= LEAST_OF_PLACE:
            raise ValueError(f"{highest}: a character too few or too many costs {LEAST_OF_PLACE}")
        self._near_begin = [_rows(prices, highest, sure) for sure in (*BAND_MIDDLES, None)]
        self._inside = [
            {read: _no_province(sources) for read, sources in rows.items()}
            for rows in self._near_begin
        ]

    def of(self, read: str, sure: Sure) -> Iterator[str]:
        """The texts."""
        for at, seen in enumerate(read):
            band = -1 if sure is None else band_of(sure[at])
            sources = (self._inside if at > 1 else self._near_begin)[band].get(seen)
            if sources:
                before, behind = read[:at], read[at + 1 :]
                for true in sources:
                    yield f"{before}{true}{behind}"


def _rows(prices: MisreadingPrices, highest: float, sure: float | None) -> _Rows:
    found: _Rows = {}
    for true, row in prices.taken_for.items():
        for read in (*row, UNREAD):
            if prices.substitution(true, read, sure) <= highest:
                found[read] = found.get(read, "") + true
    return found


def _no_province(sources: str) -> str:
    return "".join(true for true in sources if true not in PROVINCES)
