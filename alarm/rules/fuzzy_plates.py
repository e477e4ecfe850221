"""Plates that are met by their misreadings, up to a price. Pure.

In: plates, each with the highest price of a reading; a record's plate and what its reader says of
each character. Out: whether a reading is cheap enough, and where an index finds it. Never: a
reading that a walk over all rules would find and the index does not.

The index: two texts that are one edit apart have a part in common, which is one of them or lacks
one character of each. A rule stands at all such parts of its plate. A record looks up those of its
reading, and of each plate that is taken for it in one character at half the price: of two edits
the cheaper one costs no more, and is no character too few or too many (`LEAST_OF_PLACE`). Since
nearly any province is taken for any other, a rule also stands at all such parts of what follows
its first character. Rules with a price above `NARROW` would need nearly every plate to be looked
up: they stand at the parts that lack up to two characters, which finds too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from alarm.rules.index_cells import IndexCells, Values
from bus.contracts.expressions import Resemblance
from bus.domain.fuzzy_plate import (
    USUAL_HIGHEST,
    FuzzyPlate,
    fuzzy_plate,
    is_fuzzy,
    plate_up_to,
)
from bus.domain.misreading_prices import LEAST_OF_PLACE, measured_prices
from bus.domain.plates import readings
from bus.domain.reading_price import MOST_EDITS, Bands, confidence_bands, reading_price
from bus.domain.reading_sources import ReadingSources
from bus.domain.rule_values import CONFIDENCES, PLATE

NARROW = USUAL_HIGHEST
"""The highest price of rules whose index finds hardly more than meets them."""

_ANY_FIRST = "*"
"""Before parts of what follows the first character."""
_ROUNDING = 1e-9
"""Prices are added in another order than when a reading is judged."""


class PlateParts(NamedTuple):
    """Parts of a plate that lack up to one or two characters; of a record, where `corrected`, also
    those of plates that may have been misread as it."""

    lacking: int
    corrected: bool

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """What to look up for a record."""
        look_up = _corrected_parts if self.corrected else _plain_parts
        return look_up(attributes.get(PLATE, ""), attributes.get(CONFIDENCES, ""))


_NARROW_PARTS, _WIDE_PARTS = PlateParts(1, True), PlateParts(MOST_EDITS, False)


@dataclass(frozen=True, slots=True)
class FuzzyPlates:
    """A reading of the plate is cheap enough for one of these."""

    plates: tuple[FuzzyPlate, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `RuleCondition.attributes`."""
        return (PLATE, CONFIDENCES)

    def index_cells(self) -> tuple[IndexCells, ...]:
        """By parts of each plate: 15 or 17 of a usual one, 29 or 37 of one with a high price."""
        cells: dict[PlateParts, dict[Values, None]] = {}
        for plate, highest in self.plates:
            parts = _NARROW_PARTS if highest <= NARROW else _WIDE_PARTS
            found = parts_of(plate, parts.lacking)
            if parts.corrected:
                found += [f"{_ANY_FIRST}{part}" for part in parts_of(plate[1:], 1)]
            own = ((part,) for part in found)
            cells.setdefault(parts, {}).update(dict.fromkeys(own))
        return tuple(IndexCells((parts,), tuple(own)) for parts, own in cells.items())

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """See `RuleCondition.is_met`."""
        return self.price(attributes) is not None

    def price(self, attributes: Mapping[str, str]) -> float | None:
        """The lowest price of the record's reading; None where it is too high for each plate."""
        prices = measured_prices()
        found: float | None = None
        for read, bands in _readings(attributes.get(PLATE, ""), attributes.get(CONFIDENCES, "")):
            for plate, highest in self.plates:
                price = reading_price(plate, read, prices, highest, bands)
                if price is not None and (found is None or price < found):
                    found = price
        return found


def fuzzy_plates(written: Iterable[str]) -> tuple[FuzzyPlates, list[str]]:
    """Of a rule's plates those that are met by their misreadings, and all that are not meant so."""
    plates: list[str] = []
    others: list[str] = []
    for text in written:
        (plates if is_fuzzy(text) else others).append(text)
    return FuzzyPlates(tuple(dict.fromkeys(filter(None, map(fuzzy_plate, plates))))), others


def resembled(leaf: Resemblance) -> FuzzyPlates:
    """The plate of a leaf that was checked."""
    found = plate_up_to(leaf.plate, leaf.highest_price)
    return FuzzyPlates((found,) if found else ())


@lru_cache(maxsize=1)
def _sources() -> ReadingSources:
    return ReadingSources(measured_prices(), NARROW / 2)


def parts_of(text: str, lacking: int) -> list[str]:
    """The text, and what is left of it without up to so many characters; some more than once."""
    found = [text, *[text[:at] + text[at + 1 :] for at in range(len(text))]]
    if lacking > 1:
        places = combinations(range(len(text)), 2)
        found += [text[:one] + text[one + 1 : two] + text[two + 1 :] for one, two in places]
    return found


def _plain_parts(seen: str, confidences: str) -> tuple[str, ...]:
    read = (reading for reading, _ in _readings(seen, confidences))
    return tuple({part for reading in read for part in parts_of(reading, MOST_EDITS)})


@lru_cache(maxsize=1)  # the matcher looks twice at a record that may meet a rule
def _corrected_parts(seen: str, confidences: str) -> tuple[str, ...]:
    """No part for an edit that would cost too much, as sure as the reader is of the character."""
    found: set[str] = set()
    for read, bands in _readings(seen, confidences):
        least = _sources().least_prices(read, bands)
        found.add(read)
        found.update(_lacking_one(read, least, NARROW, without=-1))
        left = NARROW - _sources().first_price(read, bands) + _ROUNDING
        found.update(
            f"{_ANY_FIRST}{part[1:]}" for part in _with_another_edit(read, least, left, without=0)
        )
        for price, at, true in _sources().of(read, bands):
            left = NARROW - price + _ROUNDING
            text = f"{read[:at]}{true}{read[at + 1 :]}"
            found.update(_with_another_edit(text, least, left, without=at))
    return tuple(found)


def _with_another_edit(text: str, least: list[float], left: float, *, without: int) -> list[str]:
    """Parts by which a corrected text is found where another edit of at most `left` is needed."""
    found = _lacking_one(text, least, left, without=without)
    if left >= LEAST_OF_PLACE:
        found.append(text)
    return found


def _lacking_one(text: str, least: list[float], left: float, *, without: int) -> list[str]:
    return [
        text[:at] + text[at + 1 :]
        for at, price in enumerate(least)
        if price <= left and at != without
    ]


@lru_cache(maxsize=2)  # all rules that an index finds look at one record after the other
def _readings(seen: str, confidences: str) -> tuple[tuple[str, Bands], ...]:
    """What a form of a plate may mean, and how sure the reader is of its characters."""
    if not seen:
        return ()
    return tuple((read, confidence_bands(confidences, read)) for read in readings(seen))
