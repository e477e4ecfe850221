"""Plates that are met by their misreadings, up to a price. Pure.

In: plates, each with the highest price of a reading; a record's plate, what its reader says of each
character, and its further candidates. Out: whether a reading is cheap enough, and where an index
finds it. Never: a reading that a walk over all rules would find and the index does not.

The index is that of `reading_parts`. Rules with a price above `NARROW` would need nearly every
plate to be looked up: they stand at the parts that lack up to two characters, which finds too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from operator import itemgetter
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne

from alarm.rules.index_cells import IndexCells, Values
from alarm.rules.reading_parts import PlateTexts, ReadingParts, texts_of_plate
from bus.contracts.alarms import ReadingPrice
from bus.contracts.expressions import Resemblance
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.fuzzy_plate import (
    USUAL_HIGHEST,
    FuzzyPlate,
    fuzzy_plate,
    is_fuzzy,
    plate_up_to,
)
from bus.domain.misreading_prices import UNSAID
from bus.domain.plate_candidates import candidates_of
from bus.domain.plates import readings
from bus.domain.reading_price import MOST_EDITS, Bands, confidence_bands, reading_price
from bus.domain.rule_values import CANDIDATES, CONFIDENCES, PLATE

NARROW = USUAL_HIGHEST
"""The highest price of rules whose index finds hardly more than meets them."""


class TriedReading(NamedTuple):
    """What a plate may be, with how sure the reader is of its characters. Of a further candidate
    its `weight` and the `price` of taking it; of what was written both are 0."""

    text: str
    bands: Bands
    price: float = 0.0
    weight: float = 0.0


class PlateParts(NamedTuple):
    """Texts by which a record finds fuzzy plates: those of `reading_parts`, of plates that are
    whole or lack a character; or, of plates with a high price, parts that lack up to two."""

    form: Literal["whole", "lacking", "wide"]
    confusion: ConfusionTable

    def of(self, attributes: Mapping[str, str]) -> Iterable[object]:
        """What to look up for a record."""
        written = _plate_attributes(attributes)
        if self.form == "wide":
            return _plain_parts(self.confusion, *written)
        texts = _texts(self.confusion, *written)
        return texts.whole if self.form == "whole" else texts.lacking

    def is_near(self, attributes: Mapping[str, str], compared: Iterable[str]) -> bool:
        """Whether as many edits as a price may have at most make one of these plates of it."""
        seen, _, candidates = _plate_attributes(attributes)
        texts = [*readings(seen), *(plate for plate, _ in candidates_of(candidates))]
        return any(
            extractOne(text, compared, scorer=Levenshtein.distance, score_cutoff=MOST_EDITS)
            for text in texts
        )


@dataclass(frozen=True, slots=True)
class FuzzyPlates:
    """A reading of the plate is cheap enough for one of these."""

    plates: tuple[FuzzyPlate, ...]
    confusion: ConfusionTable = PACKAGED

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `RuleCondition.attributes`."""
        return (PLATE, CONFIDENCES, CANDIDATES)

    def index_cells(self) -> tuple[IndexCells, ...]:
        """By texts of each plate: some 17 of a usual one, 29 or 37 of one with a high price."""
        cells: dict[PlateParts, dict[Values, None]] = {}
        compared: dict[bool, list[str]] = {True: [], False: []}
        for plate, highest in self.plates:
            compared[highest > NARROW].append(plate)
            if highest > NARROW:
                _put(cells, PlateParts("wide", self.confusion), parts_of(plate))
                continue
            whole, lacking = texts_of_plate(plate)
            _put(cells, PlateParts("whole", self.confusion), whole)
            _put(cells, PlateParts("lacking", self.confusion), lacking)
        return tuple(
            IndexCells((parts,), tuple(own), tuple(compared[parts.form == "wide"]))
            for parts, own in cells.items()
        )

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """See `RuleCondition.is_met`."""
        return next(self._priced(attributes), None) is not None

    def price(self, attributes: Mapping[str, str]) -> float | None:
        """The lowest price of the record's reading; None where it is too high for each plate."""
        return min((price for price, _, _ in self._priced(attributes)), default=None)

    def cheapest(self, attributes: Mapping[str, str]) -> ReadingPrice | None:
        """The same with the plate that was meant and what was read; the first of several."""
        found = min(self._priced(attributes), key=itemgetter(0), default=None)
        if found is None:
            return None
        price, reading, (plate, highest) = found
        return ReadingPrice(
            plate=plate, read=reading.text, price=round(price, 3), highest=highest,
            weight=reading.weight, table=self.confusion.version,
        )  # fmt: skip

    def _priced(
        self, attributes: Mapping[str, str]
    ) -> Iterator[tuple[float, TriedReading, FuzzyPlate]]:
        """Each reading that is cheap enough for one of the plates."""
        prices = self.confusion.prices
        for reading in _readings(self.confusion, *_plate_attributes(attributes)):
            for wanted in self.plates:
                left = wanted.highest - reading.price
                price = reading_price(wanted.plate, reading.text, prices, left, reading.bands)
                if price is not None and left >= 0:
                    yield reading.price + price, reading, wanted


def fuzzy_plates(
    written: Iterable[str], confusion: ConfusionTable = PACKAGED
) -> tuple[FuzzyPlates, list[str]]:
    """Of a rule's plates those that are met by their misreadings, and all that are not meant so."""
    plates: list[str] = []
    others: list[str] = []
    for text in written:
        (plates if is_fuzzy(text) else others).append(text)
    found = tuple(dict.fromkeys(filter(None, map(fuzzy_plate, plates))))
    return FuzzyPlates(found, confusion), others


def resembled(leaf: Resemblance, confusion: ConfusionTable = PACKAGED) -> FuzzyPlates:
    """The plate of a leaf that was checked."""
    found = plate_up_to(leaf.plate, leaf.highest_price)
    return FuzzyPlates((found,) if found else (), confusion)


@lru_cache(maxsize=2)  # while a site's table is replaced by its next one
def _reading_parts(confusion: ConfusionTable) -> ReadingParts:
    return ReadingParts(confusion.prices, NARROW)


def parts_of(text: str) -> list[str]:
    """The text, and what is left of it without up to two characters; some more than once."""
    found = [text, *[text[:at] + text[at + 1 :] for at in range(len(text))]]
    places = combinations(range(len(text)), MOST_EDITS)
    found += [text[:one] + text[one + 1 : two] + text[two + 1 :] for one, two in places]
    return found


def _plain_parts(confusion: ConfusionTable, *written: str) -> tuple[str, ...]:
    tried = _readings(confusion, *written)
    return tuple({part for reading in tried for part in parts_of(reading.text)})


@lru_cache(maxsize=1)  # two indexes, and the matcher looks twice at a record that may meet a rule
def _texts(confusion: ConfusionTable, *written: str) -> PlateTexts:
    """No text for an edit that would cost too much, as sure as the reader is of the character."""
    parts = _reading_parts(confusion)
    found = [parts.of(one.text, one.bands) for one in _readings(confusion, *written)]
    if len(found) == 1:
        return found[0]
    whole = {text for texts in found for text in texts.whole}
    return PlateTexts(whole, {text for texts in found for text in texts.lacking})


def _put(
    cells: dict[PlateParts, dict[Values, None]], parts: PlateParts, texts: Iterable[str]
) -> None:
    cells.setdefault(parts, {}).update(dict.fromkeys((text,) for text in sorted(texts)))


@lru_cache(maxsize=2)  # all rules that an index finds look at one record after the other
def _readings(
    confusion: ConfusionTable, seen: str, confidences: str, candidates: str
) -> tuple[TriedReading, ...]:
    """What a form of a plate may mean, then the further candidates: those that are something else.
    Of a plate that was not read at all nothing is known, whatever stands beside it."""
    if not seen:
        return ()
    written = readings(seen)
    found = [TriedReading(read, confidence_bands(confidences, read)) for read in written]
    if candidates:
        found += [
            TriedReading(
                plate, (UNSAID,) * len(plate), confusion.prices.candidate(weight), weight
            )
            for plate, weight in candidates_of(candidates)
            if plate not in written
        ]
    return tuple(found)


def _plate_attributes(attributes: Mapping[str, str]) -> tuple[str, str, str]:
    """The plate, and what its reader says beside it."""
    get = attributes.get
    return get(PLATE, ""), get(CONFIDENCES, ""), get(CANDIDATES, "")
