"""Misreads plates as a measured reader does: by the half of its counts that no price rests on.

In: a plate. Out: what a camera writes of it, how sure it says it is of each character, and which
plates it holds possible beside it. Deterministic for the generator it is given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

from bus.domain.plate_candidates import PlateCandidate
from bus.domain.plate_confusion import DROPPED, ConfusionCounts
from bus.domain.plate_confusion_tables import HELD_OUT
from bus.domain.plates import PROVINCES, UNREAD, is_whole

_PER_CENT = ((40, 59), (60, 79), (80, 89), (90, 94), (95, 98), (99, 100))
"""What a reader says of a character, by band of `plate_confusion`."""
_UNREAD_PER_CENT = (10, 39)
UNSURE_BELOW = 80
"""Per cent. Of a character of which it is less sure a camera says what else it may be."""
_MOST_CANDIDATES = 3
_LEAST_WEIGHT = 0.01
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
        self._shares = _shares_of_truths(counts)

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

    def candidates(self, read: MisreadPlate) -> tuple[PlateCandidate, ...]:
        """What else the plate may be by one character, the likeliest first: its doubt of the
        character, shared among those that are read so. Of characters of which it is sure none."""
        text, sure = read
        found = [
            PlateCandidate(f"{text[:at]}{true}{text[at + 1 :]}", round(doubt * share, 3))
            for at, (seen, doubt) in enumerate(
                zip(text, [1 - own / 100 for own in sure], strict=True)
            )
            if sure[at] < UNSURE_BELOW
            for true, share in self._shares[not at].get(seen, ())
        ]
        likely = [one for one in found if one.weight >= _LEAST_WEIGHT and is_whole(one.plate)]
        return tuple(nlargest(_MOST_CANDIDATES, likely, key=lambda one: one.weight))

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


_SharesOfTruths = dict[str, tuple[tuple[str, float], ...]]
"""Character that was read -> characters of plates that are read so, each with its share of them."""


def _shares_of_truths(counts: ConfusionCounts) -> tuple[_SharesOfTruths, _SharesOfTruths]:
    """Behind the first character, and at it."""
    found: tuple[dict[str, dict[str, float]], ...] = ({}, {})
    for true, row in counts.rows.items():
        total = sum(row.values())
        for seen, count in row.items():
            if seen != true:
                found[true in PROVINCES].setdefault(seen, {})[true] = count / total
    inside, first = (
        {
            seen: tuple((true, share / sum(row.values())) for true, share in row.items())
            for seen, row in rows.items()
        }
        for rows in found
    )
    return inside, first
