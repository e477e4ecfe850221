"""By which texts an index finds the plates that a reading may be a cheap misreading of. Pure.

In: a reading, how sure its reader is of each character. Out: texts to look up. Never: a plate
missed for which the reading costs at most `highest`, whatever its one or two edits are.

A plate stands in one index as itself, in another without each of its characters; and in both as
what follows its first character, behind `ANY_FIRST`, since nearly any province is taken for any
other. A reading looks up itself and, of each edit that is cheap enough for some plate, what the
plate would have: the character too many left out; a character in another's place where few are
cheap enough; else, and for a character too few, a text in the index of plates that lack one. Of two
edits the cheaper one costs at most half and is no character too few or too many
(`LEAST_OF_PLACE`): the same is done to each text that this one leaves.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from bus.domain.misreading_prices import LEAST_OF_PLACE, UNSAID, MisreadingPrices
from bus.domain.plates import UNREAD
from bus.domain.reading_price import Bands
from bus.domain.reading_sources import ReadingSources, sources_inside

ANY_FIRST = "*"
MOST_SOURCES = 4
"""Characters that are each looked up; where more are cheap enough, one text without the character
finds them all, and others."""
_ROUNDING = 1e-9
"""Prices are added in another order than when a reading is judged."""

Sources = tuple[tuple[float, str], ...]
"""Characters of plates with their prices, the cheapest first."""


class PlateTexts(NamedTuple):
    """`whole`: of the index of plates as they are; `lacking`: of that of plates that lack one."""

    whole: set[str]
    lacking: set[str]


class _Place(NamedTuple):
    """Of a character of a reading. `right`: the price of its being right; all others are above
    that one. `least`: of the cheapest edit there; `too_many`: of leaving it out; `any_other`: the
    lowest at which it is taken for one that is not in `sources`, or for one of too many of them."""

    at: int
    right: float
    least: float
    too_many: float
    any_other: float
    sources: Sources


def texts_of_plate(plate: str) -> PlateTexts:
    """Where it stands in the indexes."""
    rest = f"{ANY_FIRST}{plate[1:]}"
    lacking = {f"{plate[:at]}{plate[at + 1 :]}" for at in range(len(plate))}
    lacking |= {f"{rest[:at]}{rest[at + 1 :]}" for at in range(1, len(rest))}
    return PlateTexts({plate, rest}, lacking)


class ReadingParts:
    """For plates of which a reading costs at most `highest`."""

    def __init__(self, prices: MisreadingPrices, highest: float) -> None:
        self._highest = highest
        self._cheap = ReadingSources(prices, highest / 2)
        self._prices = prices
        self._sources = [sources_inside(prices, highest, band) for band in range(UNSAID + 1)]
        self._unread = min(prices.unread.values(), default=0.0)
        self._places: dict[tuple[int, str, int], _Place] = {}

    def of(self, read: str, bands: Bands) -> PlateTexts:
        """What to look up."""
        found = PlateTexts({read}, set())
        if not read:
            return found
        first = self._cheap.lowest_first(read, bands)
        known = self._places
        places = [
            known.get(key) or self._place(*key)
            for key in zip(range(len(read)), read, bands, strict=True)
        ]
        first_above = first - places[0].right
        left = self._highest - sum([place.right for place in places]) + _ROUNDING
        cheap = [place for place in places if place.least <= left]
        _edit_once(read, cheap, left, -1, first_above, found)
        if first <= self._highest / 2:
            any_first = f"{ANY_FIRST}{read[1:]}"
            _edit_once(any_first, cheap, left - first_above, 0, first_above, found)
        for price, at, true in self._cheap.of(read, bands):
            remaining = left - price + places[at].right
            if remaining >= 0:
                text = f"{read[:at]}{true}{read[at + 1 :]}"
                found.whole.add(text)
                _edit_once(text, cheap, remaining, at, first_above, found)
        return found

    def _place(self, at: int, seen: str, band: int) -> _Place:
        """The same for every reading; of characters that occur on plates it is kept."""
        right = self._prices.right[band].get(seen, 0.0)
        other = (self._unread if seen == UNREAD else self._prices.unknown[band]) - right
        sources = tuple(
            (price - right, true) for price, true in self._sources[band].get(seen, ())
        )
        if len(sources) > MOST_SOURCES:
            other = min(other, sources[MOST_SOURCES][0])
        too_many = self._prices.insertion(seen) - right
        least = min(too_many, other, *(price for price, _ in sources[:1])) if at else -inf
        found = _Place(at, right, least, too_many, other, sources)
        if len(self._places) < _MOST_PLACES:
            self._places[at, seen, band] = found
        return found


_MOST_PLACES = 16_384  # a hundred characters, sixteen places, seven bands


def _edit_once(
    text: str, places: list[_Place], left: float, corrected: int, first: float, found: PlateTexts
) -> None:
    """Add what plates have that one more edit of at most `left` leaves of a text. `corrected`: the
    place that has been edited; `first`: the lowest price of another first character."""
    whole, lacking = found
    for at, _, least, too_many, any_other, sources in places:
        if least > left or at == corrected:
            continue
        if too_many <= left:
            whole.add(text[:at] + text[at + 1 :])
        if not at:
            if first <= left:
                whole.add(ANY_FIRST + text[1:])
        elif any_other <= left:
            lacking.add(text[:at] + text[at + 1 :])
        else:
            for price, true in sources:
                if price > left:
                    break
                whole.add(text[:at] + true + text[at + 1 :])
    if left >= LEAST_OF_PLACE:
        lacking.add(text)
