"""A plate of which a rule names a part: `?` is one character, `*` any run of them. Pure.

In: what a person typed; the plate of a vehicle. Out: a pattern, and whether the plate is like it.
Never: a plate that was not wholly read: of it nobody knows which vehicle it names (how a search
takes those: `plate_search`).
"""

from __future__ import annotations

from typing import NamedTuple

from bus.domain.plates import (
    ANY_RUN,
    HYPHEN,
    MAX_PLATE_CHARACTERS,
    UNREAD,
    folded,
    with_read_marks,
    with_single_runs,
)

LEAST_NAMED = 3
"""Letters and digits of a pattern; one with fewer is met by a whole district's cars."""


class PlatePattern(NamedTuple):
    """Letters, digits, `?` and `*`, in the normal form of plates.

    Compared here and not by `fnmatch`, which remembers 256 patterns and compiles all others anew:
    there may be 100,000 in force, and each worker of Spark is sent them."""

    text: str

    @property
    def named(self) -> int:
        """How many of its characters are given."""
        return sum(sign not in ANY_RUN + UNREAD for sign in self.text)

    def is_met_by(self, plate: str) -> bool:
        """Whether a vehicle with this plate is meant. Each part between two `*` is taken where it
        comes first, which no later one can better: there is nothing to go back for."""
        head, *parts = self.text.split(ANY_RUN)
        if not parts:
            return len(plate) == len(head) and _is_at(head, plate, 0)
        tail = parts.pop()
        at, end = len(head), len(plate) - len(tail)
        if end < at or not _is_at(head, plate, 0) or not _is_at(tail, plate, end):
            return False
        for part in parts:
            found = _first(part, plate, at, end)
            if found is None:
                return False
            at = found + len(part)
        return True


def is_pattern(text: str) -> bool:
    """Whether it has a `?` or a `*`, or another mark of a character that is not given."""
    form = pattern_form(text)
    return ANY_RUN in form or UNREAD in form


def plate_pattern(text: str) -> PlatePattern | None:
    """The pattern a person means; None where it names too little, or is longer than any plate."""
    found = PlatePattern(pattern_form(text))
    too_long = len(found.text.replace(ANY_RUN, "")) > MAX_PLATE_CHARACTERS
    return None if too_long or found.named < LEAST_NAMED else found


def pattern_form(text: str) -> str:
    """As patterns are compared; a hyphen separates, as in a plate that a rule names in full."""
    return with_read_marks(with_single_runs(folded(text).replace(HYPHEN, "")))


def _is_at(part: str, plate: str, at: int) -> bool:
    return all(
        sign in (UNREAD, own) for sign, own in zip(part, plate[at : at + len(part)], strict=True)
    )


def _first(part: str, plate: str, begin: int, end: int) -> int | None:
    """Where it stands first in [begin, end)."""
    places = range(begin, end - len(part) + 1)
    return next((at for at in places if _is_at(part, plate, at)), None)
