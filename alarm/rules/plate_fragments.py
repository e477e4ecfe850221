"""By which characters of a plate an index finds the rules that name a part of it. Pure.

In: a pattern. Out: a fragment, and the characters it has there. Never: a fragment that a plate may
lack although it meets the pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import Any

from bus.domain.plate_patterns import PlatePattern
from bus.domain.plates import ANY_RUN, UNREAD
from bus.domain.rule_values import PLATE, values_of

MOST_RUN = 3
"""Characters that stand together anywhere; longer runs would be rarer and find no more."""


@dataclass(frozen=True, slots=True)
class PlateFragment:
    """Of plates of one length (0: of any) the characters at some places, from the end where they
    are negative; or, of ``run`` characters, each run."""

    length: int
    places: tuple[int, ...]
    run: int = 0
    _get: Any = field(init=False, repr=False, compare=False)
    """What takes the places; `_least` and `_most`: how long a plate is that has them."""
    _least: int = field(init=False, repr=False, compare=False)
    _most: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        get, least = _getter(self.places) if self.places else (None, 0)
        object.__setattr__(self, "_get", get)
        object.__setattr__(self, "_least", self.length or least)
        object.__setattr__(self, "_most", self.length or inf)

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """What stands there in the plates that a rule may know the record's vehicle by."""
        plates = _plates(attributes.get(PLATE, ""))
        if self.run:
            last = self.run - 1
            return tuple({
                plate[at : at + self.run] for plate in plates for at in range(len(plate) - last)
            })  # fmt: skip
        get, least, most = self._get, self._least, self._most
        if len(plates) == 1:  # as nearly always: half the time of the list
            return (get(plates[0]),) if least <= len(plates[0]) <= most else ()
        return tuple([get(plate) for plate in plates if least <= len(plate) <= most])


@lru_cache(maxsize=1)  # all signatures of an index look at one record after the other
def _plates(form: str) -> tuple[str, ...]:
    return values_of(PLATE, form)


@lru_cache(maxsize=4_096)
def _getter(places: tuple[int, ...]) -> tuple[Any, int]:
    """What takes them, and how long a plate must be."""
    return itemgetter(*places), max(place + 1 if place >= 0 else -place for place in places)


def fragment_of(pattern: PlatePattern) -> tuple[PlateFragment, object]:
    """The rarest part of a pattern, and what must stand there: of what is given at both ends all,
    unless more is given in a row between them."""
    head, *parts = pattern.text.split(ANY_RUN)
    if not parts:
        places = _given(head, 0)
        return PlateFragment(len(head), places), _getter(places)[0](head)
    tail = parts[-1]
    places = (*_given(head, 0), *_given(tail, -len(tail)))
    run = max((one for part in parts[:-1] for one in part.split(UNREAD)), key=len, default="")
    if len(run[:MOST_RUN]) > len(places):
        return PlateFragment(0, (), min(len(run), MOST_RUN)), run[:MOST_RUN]
    return PlateFragment(0, places), _getter(places)[0](f"{head}{tail}")


def _given(part: str, begin: int) -> tuple[int, ...]:
    return tuple(begin + at for at, sign in enumerate(part) if sign != UNREAD)
