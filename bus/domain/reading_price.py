"""How far a reading is from a plate: an edit distance with measured prices. Pure.

In: a plate, a reading of one, what the reader says of its characters. Out: the lowest sum of the
prices of at most two edits, or None. Never: more edits, whatever they cost: three of seven
characters are another plate.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from bus.domain.misreading_prices import LEAST_OF_PLACE, MisreadingPrices
from bus.domain.plates import HYPHEN

MOST_EDITS = 2
_FULL_SURE = 100.0
_TWO_OF_PLACE = 2 * LEAST_OF_PLACE
"""What is cheaper leaves no character of as long a text out, and puts none in."""

Sure = Sequence[float] | None
"""What the reader says of each character, 0 to 1; None where it says nothing."""


def reading_price(
    plate: str, read: str, prices: MisreadingPrices, highest: float, sure: Sure = None
) -> float | None:
    """The price of `read` (letters, digits, `UNREAD`) for `plate`; None above `highest`. A reading
    that equals the plate costs nothing, however unsure the reader is."""
    if plate == read:
        return 0.0
    if abs(len(plate) - len(read)) > MOST_EDITS:
        return None
    if len(plate) == len(read):
        found = _substituted(plate, read, prices, sure)
        if min(found, highest) <= _TWO_OF_PLACE:
            return found if found <= highest else None
    found = _PlateAlignment(plate, read, prices, sure).lowest(0, 0, MOST_EDITS, highest)
    return found if found <= highest else None


def _substituted(plate: str, read: str, prices: MisreadingPrices, sure: Sure) -> float:
    """The price of characters read as others, each in its place; infinity for too many."""
    price, edits = 0.0, 0
    for at, (true, seen) in enumerate(zip(plate, read, strict=True)):
        if true != seen:
            edits += 1
            if edits > MOST_EDITS:
                return inf
            price += prices.substitution(true, seen, sure[at] if sure is not None else None)
    return price


class _PlateAlignment:
    """Walks along both texts; what costs more than the best that is known is not followed."""

    __slots__ = ("_plate", "_prices", "_read", "_sure")

    def __init__(self, plate: str, read: str, prices: MisreadingPrices, sure: Sure) -> None:
        self._plate, self._read, self._prices, self._sure = plate, read, prices, sure

    def lowest(self, at: int, to: int, edits: int, highest: float) -> float:
        """From these places to the ends; anything above `highest` where it costs more."""
        plate, read, none = self._plate, self._read, highest + 1
        if not edits:
            return 0.0 if plate[at:] == read[to:] else none
        left, new = len(plate) - at, len(read) - to
        if abs(left - new) > edits:
            return none
        if not left and not new:
            return 0.0
        best = none
        if left and new:
            if plate[at] == read[to]:
                best = self.lowest(at + 1, to + 1, edits, highest)
            else:
                price = self._prices.substitution(plate[at], read[to], self._of(to))
                best = self._then(price, at + 1, to + 1, edits, highest)
        if left:
            price = self._prices.deletion(plate[at])
            best = min(best, self._then(price, at + 1, to, edits, min(best, highest)))
        if new:
            price = self._prices.insertion(read[to], self._of(to))
            best = min(best, self._then(price, at, to + 1, edits, min(best, highest)))
        return best

    def _then(self, price: float, at: int, to: int, edits: int, highest: float) -> float:
        if price > highest:
            return highest + 1
        return price + self.lowest(at, to, edits - 1, highest - price)

    def _of(self, to: int) -> float | None:
        return self._sure[to] if self._sure is not None else None


def character_confidences(text: str, read: str) -> Sure:
    """What a device says of the characters of a reading: `浙-80,A-90,…` or `80,90,…`, to 1 or to
    100; None where it is not one number per character."""
    if not text:
        return None
    parts = text.split(",")
    if len(parts) != len(read):
        return None
    try:
        numbers = [float(part.rpartition(HYPHEN)[2]) for part in parts]
    except ValueError:
        return None
    scale = 1.0 if max(numbers) <= 1 else _FULL_SURE
    found = tuple(number / scale for number in numbers)
    return found if all(0 <= one <= 1 for one in found) else None
