"""A plate that a rule looks for although it may be misread: `~浙A12345`, `~0.7:浙A12345`,
and the same as a leaf of a tree. Pure.

In: what a person typed. Out: the plate, and how dear a misreading of it may be. Never: what a
misreading costs (`misreading_prices`).
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from bus.contracts.expressions import USUAL_HIGHEST_PRICE
from bus.domain.plates import PROVINCES, wanted_vehicle

MARK, PRICE_END = "~", ":"
LEAST_HIGHEST, USUAL_HIGHEST, MOST_HIGHEST = 0.5, USUAL_HIGHEST_PRICE, 2.0
"""The highest price of a reading that a rule may name: a misreading that is often seen; one edit of
any kind, or two that are often seen; any two."""
LEAST_CHARACTERS = 6
"""Of the plate: two of fewer are most of what is known."""
WHOLE_PLATE = (
    f"a whole plate of at least {LEAST_CHARACTERS} letters and digits, with its province in front"
    " only and without ? or *"
)
"""What is expected, in an error."""


class FuzzyPlate(NamedTuple):
    """The plate in its normal form; readings of it up to that price are taken for it."""

    plate: str
    highest: float


def is_fuzzy(text: str) -> bool:
    """Whether it begins with the mark, in the width of either script."""
    return unicodedata.normalize("NFKC", text.lstrip()[:1]) == MARK


def fuzzy_plate(text: str) -> FuzzyPlate | None:
    """What a text with the mark means; None where the price is no number from `LEAST_HIGHEST` to
    `MOST_HIGHEST`, or the plate is none, too short, or has a province inside."""
    meant = unicodedata.normalize("NFKC", text.strip()).removeprefix(MARK)
    price, end, plate = meant.rpartition(PRICE_END)
    highest = _price(price) if end else USUAL_HIGHEST
    return None if highest is None else plate_up_to(plate, highest)


def plate_up_to(plate: str, highest: float) -> FuzzyPlate | None:
    """The same of a plate without a mark."""
    meant = unicodedata.normalize("NFKC", plate)
    vehicle = wanted_vehicle(plate)
    if not LEAST_HIGHEST <= highest <= MOST_HIGHEST or MARK in meant or PRICE_END in meant:
        return None
    if len(vehicle) < LEAST_CHARACTERS or set(vehicle[1:]) & set(PROVINCES):
        return None
    return FuzzyPlate(vehicle, highest)


def _price(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
