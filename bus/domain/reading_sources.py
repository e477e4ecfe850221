"""Which plates may have been misread as a reading by one cheap edit. Pure.

In: a reading, what its reader says of each character. Out: texts. Never: one by an edit that costs
more than asked for; two edits.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.misreading_prices import UNKNOWN, MisreadingPrices
from bus.domain.plate_confusion import BAND_MIDDLES, band_of
from bus.domain.plates import PROVINCES, UNREAD
from bus.domain.reading_price import Sure


class ReadingSources:
    """For one price, which must be below that of an edit without evidence: there is no end to the
    characters that the counts do not know.

    A plate has a province's character at its beginning only (`fuzzy_plate`), which two edits move
    by one place at most."""

    def __init__(self, prices: MisreadingPrices, highest: float) -> None:
        if highest >= UNKNOWN:
            raise ValueError(f"{highest}: any character may be taken for any other at {UNKNOWN}")
        bands = (None, *BAND_MIDDLES)
        self._near_begin = {sure: _taken_for(prices, highest, sure) for sure in bands}
        self._inside = {
            sure: {read: _no_province(sources) for read, sources in row.items()}
            for sure, row in self._near_begin.items()
        }
        self._inserted = {
            sure: {read for read in prices.inserted if prices.insertion(read, sure) <= highest}
            for sure in bands
        }
        self._dropped_first = "".join(
            true for true in prices.dropped if prices.deletion(true) <= highest
        )
        self._dropped = _no_province(self._dropped_first)

    def of(self, read: str, sure: Sure) -> Iterator[str]:
        """The texts; some may come more than once."""
        for at, seen in enumerate(read):
            band = BAND_MIDDLES[band_of(sure[at])] if sure is not None else None
            before, behind = read[:at], read[at + 1 :]
            rows = self._inside[band] if at > 1 else self._near_begin[band]
            for true in rows.get(seen, ""):
                yield f"{before}{true}{behind}"
            if seen in self._inserted[band]:
                yield f"{before}{behind}"
        for true in self._dropped_first:
            yield f"{true}{read}"
        for true in self._dropped:
            for at in range(1, len(read) + 1):
                yield f"{read[:at]}{true}{read[at:]}"


def _taken_for(prices: MisreadingPrices, highest: float, sure: float | None) -> dict[str, str]:
    """Character that was read -> characters of plates that are cheap to take for it."""
    found: dict[str, str] = {}
    for true, row in prices.taken_for.items():
        for read in (*row, UNREAD):
            if prices.substitution(true, read, sure) <= highest:
                found[read] = found.get(read, "") + true
    return found


def _no_province(sources: str) -> str:
    return "".join(true for true in sources if true not in PROVINCES)
