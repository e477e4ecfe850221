"""A plate that a rule looks for although it may be misread: `~浙A12345`, `~0.7:浙A12345`. Pure.

In: what a person typed. Out: the plate, and how dear a misreading of it may be. Never: what a
misreading costs (`misreading_prices`).
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from bus.domain.plates import PROVINCES, wanted_vehicle

MARK, PRICE_END = "~", ":"
LEAST_HIGHEST, USUAL_HIGHEST, MOST_HIGHEST = 0.5, 1.0, 2.0
"""The highest price of a reading that a rule may name: a misreading that is often seen; one edit of
any kind, or two that are often seen; any two."""
LEAST_CHARACTERS = 6
"""Of the plate: two of fewer are most of what is known."""


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
    vehicle = wanted_vehicle(plate)
    if highest is None or len(vehicle) < LEAST_CHARACTERS or MARK in meant:
        return None
    return None if set(vehicle[1:]) & set(PROVINCES) else FuzzyPlate(vehicle, highest)


def _price(text: str) -> float | None:
    try:
        price = float(text)
    except ValueError:
        return None
    return price if LEAST_HIGHEST <= price <= MOST_HIGHEST else None
