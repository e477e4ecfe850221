"""Which character of a plate became which of its reading. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.domain.plate_confusion import BANDS, DROPPED, ConfusionCounts, band_of
from bus.domain.plates import UNREAD

MOST_EDITS = 3
"""Of a plate of seven; beyond that chance says which character became which."""
UNREAD_BELOW = 0.4
"""A character of which the reader is less sure is written as unread, as devices do."""

Pairs = list[tuple[str, str, float]]
"""Character of the plate (or none), what was read (or none), how sure."""


@dataclass(slots=True)
class ConfusionTally:
    """Adds readings up."""

    plates: int = 0
    lost: int = 0
    exact: int = 0
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    inserted: Counter[str] = field(default_factory=Counter)
    right: list[int] = field(default_factory=lambda: [0] * BANDS)
    wrong: list[int] = field(default_factory=lambda: [0] * BANDS)

    def add(self, plate: str, text: str, sure: Sequence[float]) -> None:
        """One plate and what was read of it."""
        self.plates += 1
        read = "".join(
            UNREAD if own < UNREAD_BELOW else sign for sign, own in zip(text, sure, strict=True)
        )
        self.exact += plate == read
        pairs = aligned(plate, read, sure)
        if pairs is None:
            self.lost += 1
            return
        for true, seen, own in pairs:
            self._add_pair(true, seen, own)

    def counts(self) -> ConfusionCounts:
        """What was counted."""
        rows = {true: dict(row) for true, row in sorted(self.rows.items())}
        return ConfusionCounts(
            self.plates, self.lost, self.exact, rows, dict(self.inserted),
            tuple(self.right), tuple(self.wrong),
        )  # fmt: skip

    def _add_pair(self, true: str, seen: str, sure: float) -> None:
        if not true:
            self.inserted[seen] += 1
            return
        self.rows.setdefault(true, Counter())[seen or DROPPED] += 1
        if seen not in ("", UNREAD):
            (self.right if seen == true else self.wrong)[band_of(sure)] += 1


def aligned(plate: str, read: str, sure: Sequence[float]) -> Pairs | None:
    """The pairs of the alignment with the fewest edits; None beyond `MOST_EDITS`. An unread
    character is one. Of equally short ones that which pairs characters from the end."""
    edits = [[0] * (len(read) + 1) for _ in range(len(plate) + 1)]
    for at in range(len(plate) + 1):
        for to in range(len(read) + 1):
            edits[at][to] = _least(edits, plate, read, at, to)
    if edits[-1][-1] > MOST_EDITS:
        return None
    pairs: Pairs = []
    at, to = len(plate), len(read)
    while at or to:
        here = edits[at][to]
        if at and to and here == edits[at - 1][to - 1] + (plate[at - 1] != read[to - 1]):
            at, to = at - 1, to - 1
            pairs.append((plate[at], read[to], sure[to]))
        elif at and here == edits[at - 1][to] + 1:
            at -= 1
            pairs.append((plate[at], "", 0.0))
        else:
            to -= 1
            pairs.append(("", read[to], sure[to]))
    return pairs[::-1]


def _least(edits: list[list[int]], plate: str, read: str, at: int, to: int) -> int:
    if not at or not to:
        return at + to
    paired = edits[at - 1][to - 1] + (plate[at - 1] != read[to - 1])
    return min(paired, edits[at - 1][to] + 1, edits[at][to - 1] + 1)
