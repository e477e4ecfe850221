"""How often a reader of plates takes one character for another: what was counted. Pure.

In: rows as they are written in `plate_confusion_tables`. Out: counts. Never: prices
(`misreading_prices`), drawing a misreading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from bus.domain.plates import HYPHEN, UNREAD

DROPPED = HYPHEN
"""In a row: the reader wrote nothing for the character."""
BAND_EDGES = (0.6, 0.8, 0.9, 0.95, 0.99)
"""Between the bands of what a reader says of a character, 0 to 1; a band has its lower edge."""
BANDS = len(BAND_EDGES) + 1


@dataclass(frozen=True, slots=True)
class ConfusionCounts:
    """Of so many plates, letter by letter. `lost`: plates of which too little was read to say which
    letter became which; they are in no other number."""

    plates: int
    lost: int
    exact: int
    """Plates of which each character was read right."""
    rows: Mapping[str, Mapping[str, int]]
    """Character of the plate -> what was read (itself, another, `UNREAD`, `DROPPED`) -> count."""
    inserted: Mapping[str, int]
    """Characters that were read where none is."""
    right: tuple[int, ...]
    """By band, the characters that were read right."""
    wrong: tuple[int, ...]

    @property
    def letters(self) -> int:
        """How many characters of plates the table rests on."""
        return sum(sum(row.values()) for row in self.rows.values())


def band_of(sure: float) -> int:
    """The band of what a reader says of a character, 0 to 1."""
    return bisect_right(BAND_EDGES, sure)


def counts_of(text: str) -> dict[str, int]:
    """`8:93 B:4 ?:1` as counts. Raises `ValueError`."""
    return {part[0]: int(part[2:]) for part in text.split()}


def text_of(counts: Mapping[str, int]) -> str:
    """Counts in the form that `counts_of` reads, the greatest first."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return " ".join(f"{sign}:{count}" for sign, count in ordered if count)


def is_misreading(true: str, read: str) -> bool:
    """Whether an entry of a row says that another character was read."""
    return read not in (true, UNREAD, DROPPED)
