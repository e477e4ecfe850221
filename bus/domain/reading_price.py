"""How far a reading is from a plate: an edit distance with measured prices. Pure.

In: a plate, a reading of one, how sure the reader is of its characters. Out: the lowest sum of the
prices of its characters, of which at most two are edits, or None. Never: more edits, whatever they
cost: three of seven characters are another plate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple

from bus.domain.misreading_prices import LEAST_OF_PLACE, UNSAID, MisreadingPrices, price_band
from bus.domain.plates import HYPHEN, MAX_PLATE_CHARACTERS

MOST_EDITS = 2
_FULL_SURE = 100.0
_LONGEST_PART = 24
"""A character, a hyphen and a number with all its digits."""
_NO_BAND = -1
_KEPT = 8_192
"""What readers say of a character: a hundred numbers of some seventy characters."""
_TWO_OF_PLACE = 2 * LEAST_OF_PLACE
"""What is cheaper leaves no character of as long a text out, and puts none in."""

Bands = Sequence[int]
"""How sure the reader is of each character (`price_band`)."""


def reading_price(
    plate: str, read: str, prices: MisreadingPrices, highest: float, bands: Bands
) -> float | None:
    """The price of `read` (letters, digits, `UNREAD`) for `plate`; None above `highest`. A reading
    that equals the plate costs no more than that, however unsure the reader is."""
    if len(plate) == len(read):
        found, edits = _substituted(plate, read, prices, highest, bands)
        if not edits:
            return min(found, highest)
        if min(found, highest) <= _TWO_OF_PLACE:
            return found if found <= highest else None
    elif abs(len(plate) - len(read)) > MOST_EDITS:
        return None
    found = _PlateAlignment(plate, read, prices, bands).lowest(0, 0, MOST_EDITS, highest)
    return found if found <= highest else None


def _substituted(
    plate: str, read: str, prices: MisreadingPrices, highest: float, bands: Bands
) -> tuple[float, int]:
    """The price of the characters, each in its place, and how many differ; infinity for too many,
    or at the first edit that makes it too high."""
    price, edits = 0.0, 0
    for true, seen, band in zip(plate, read, bands, strict=True):
        price += prices.substitution(true, seen, band)
        if true != seen:
            edits += 1
            if edits > MOST_EDITS or price > highest:
                return inf, edits
    return price, edits


class _PlateAlignment:
    """Walks along both texts; what costs more than the best that is known is not followed."""

    __slots__ = ("_bands", "_plate", "_prices", "_read")

    def __init__(self, plate: str, read: str, prices: MisreadingPrices, bands: Bands) -> None:
        self._plate, self._read, self._prices, self._bands = plate, read, prices, bands

    def lowest(self, at: int, to: int, edits: int, highest: float) -> float:
        """From these places to the ends; anything above `highest` where it costs more."""
        left, new = len(self._plate) - at, len(self._read) - to
        if abs(left - new) > edits:
            return inf
        if not left and not new:
            return 0.0
        best = inf
        if left and new:
            true, seen = self._plate[at], self._read[to]
            price = self._prices.substitution(true, seen, self._bands[to])
            best = self._then(price, at + 1, to + 1, edits - (true != seen), highest)
        if left and edits:
            price = self._prices.deletion(self._plate[at])
            best = min(best, self._then(price, at + 1, to, edits - 1, min(best, highest)))
        if new and edits:
            price = self._prices.insertion(self._read[to])
            best = min(best, self._then(price, at, to + 1, edits - 1, min(best, highest)))
        return best

    def _then(self, price: float, at: int, to: int, edits: int, highest: float) -> float:
        if edits < 0 or price > highest:
            return inf
        return price + self.lowest(at, to, edits, highest - price)


def confidence_bands(text: str, read: str) -> Bands:
    """Of what a device says of the characters of a reading: `浙-80,A-90,…` or `80,90,…`, to 1 or to
    100. `UNSAID` where it is not one number per character."""
    unsaid = (UNSAID,) * len(read)
    parts = text.split(",")
    if not text or len(parts) != len(read):
        return unsaid
    try:
        stated = [_confidence(part) for part in parts]
    except ValueError:
        return unsaid
    to_one = max(stated).number <= 1
    bands = tuple([one.to_one if to_one else one.to_hundred for one in stated])
    return unsaid if _NO_BAND in bands else bands


def confidences_text(written: Sequence[object]) -> str:
    """Of a JSON list, one number or `浙-80` per character, the text that `confidence_bands` reads;
    empty where one of them is neither, and of more characters than a plate has."""
    if len(written) > MAX_PLATE_CHARACTERS:
        return ""
    parts = [_list_part(one) for one in written]
    return ",".join(parts) if all(parts) else ""


def _list_part(one: object) -> str:
    if isinstance(one, str):
        return one if len(one) <= _LONGEST_PART else ""
    is_number = isinstance(one, int | float) and not isinstance(one, bool)
    return str(one) if is_number and 0 <= one <= _FULL_SURE else ""  # type: ignore[operator]


class _Confidence(NamedTuple):
    """What a reader says of a character, and its band where numbers are to 1, or to 100."""

    number: float
    to_one: int
    to_hundred: int


@lru_cache(maxsize=_KEPT)
def _confidence(part: str) -> _Confidence:
    """Raises `ValueError`."""
    number = float(part.rpartition(HYPHEN)[2])
    return _Confidence(number, _band(number), _band(number / _FULL_SURE))


def _band(sure: float) -> int:
    return price_band(sure) if 0 <= sure <= 1 else _NO_BAND
