"""Misreads plates as a measured reader does: by the half of its counts that no price rests on.

In: a plate. Out: what a camera writes of it, and how sure it says it is of each character.
Deterministic for the generator it is given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from bus.domain.plate_confusion import DROPPED, ConfusionCounts
from bus.domain.plate_confusion_tables import HELD_OUT
from bus.domain.plates import UNREAD

_PER_CENT = ((40, 59), (60, 79), (80, 89), (90, 94), (95, 98), (99, 100))
"""What a reader says of a character, by band of `plate_confusion`."""
_UNREAD_PER_CENT = (10, 39)
_TRIES = 100  # a plate of characters that are never misread has no misreading


class MisreadPlate(NamedTuple):
    """What a camera writes; `sure` has a number from 0 to 100 per character."""

    text: str
    sure: tuple[int, ...]


class PlateMisreader:
    """Draws each character by itself."""

    def __init__(self, rng: random.Random, counts: ConfusionCounts = HELD_OUT) -> None:
        self._rng = rng
        self._rows = {true: _weighted(row) for true, row in counts.rows.items()}
        self._right = list(accumulate(counts.right))
        self._wrong = list(accumulate(counts.wrong))
        self._inserted = _weighted(counts.inserted)
        self._insertion_share = sum(counts.inserted.values()) / counts.letters

    def read(self, plate: str) -> MisreadPlate:
        """A reading, which is right in most cases."""
        text: list[str] = []
        sure: list[int] = []
        for true in plate:
            if self._rng.random() < self._insertion_share:
                self._add(self._drawn(self._inserted), False, text, sure)
            seen = self._drawn(self._rows[true]) if true in self._rows else true
            if seen != DROPPED:
                self._add(seen, seen == true, text, sure)
        return MisreadPlate("".join(text), tuple(sure))

    def misread(self, plate: str) -> MisreadPlate:
        """A reading that is not right."""
        for _ in range(_TRIES):
            found = self.read(plate)
            if found.text not in (plate, ""):
                break
        return found

    def _add(self, seen: str, is_right: bool, text: list[str], sure: list[int]) -> None:
        rng = self._rng
        bands = self._right if is_right else self._wrong
        least, most = (
            _UNREAD_PER_CENT if seen == UNREAD else rng.choices(_PER_CENT, cum_weights=bands)[0]
        )
        text.append(seen)
        sure.append(rng.randint(least, most))

    def _drawn(self, row: tuple[list[str], list[int]]) -> str:
        return self._rng.choices(row[0], cum_weights=row[1])[0]


def _weighted(row: Mapping[str, int]) -> tuple[list[str], list[int]]:
    return list(row), list(accumulate(row.values()))
