"""How a plate is searched for. Pure.

In: what a person typed, in which `*` stands for any run of characters and `?` for exactly one; what
is stored of plates (`plate_form`). Out: patterns, and whether a plate fits one. Never: a store's
own language. A character that was not read fits every one; a hyphen of which it is not known
whether it separates is read both ways, in the question and in what is stored.
"""

from __future__ import annotations

import re
from functools import lru_cache

from bus.domain.plates import (
    ANY_RUN,
    HYPHEN,
    MAX_PLATE_CHARACTERS,
    PROVINCES,
    UNREAD,
    folded,
    means_no_plate,
    readings,
    with_read_marks,
    with_single_runs,
)


def asks_as_written(text: str) -> bool:
    """Whether it is 无车牌 or the like, or too long for a plate: these are found as the device
    wrote them."""
    form = folded(text)
    return ANY_RUN not in form and (means_no_plate(text) or len(form) > MAX_PLATE_CHARACTERS)


@lru_cache(maxsize=256)
def patterns(text: str) -> tuple[str, ...]:
    """What is asked for, in each way it may be meant: letters, digits, `?` and `*`."""
    form = with_single_runs(folded(text))
    if ANY_RUN in form and form[:1] in PROVINCES:  # of any length: a hyphen may be either
        both = form.replace(HYPHEN, ""), form.replace(HYPHEN, UNREAD)
        return tuple(dict.fromkeys(map(with_read_marks, both)))
    return readings(with_read_marks(form))


def whole_plate(text: str) -> str:
    """The one plate that is asked for; empty where it is a pattern or may mean another."""
    first, *others = patterns(text)
    return "" if others or UNREAD in first or ANY_RUN in first else first


def fits(text: str, form: str) -> bool:
    """Whether a plate of that form (`plate_form`) is what was asked for."""
    return bool(form) and any(
        one.fullmatch(reading) for reading in readings(form) for one in _expressions(text)
    )


@lru_cache(maxsize=256)
def _expressions(text: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile("".join(map(_expression, one))) for one in patterns(text))


def _expression(sign: str) -> str:
    """A letter or digit is met by itself and by a character that was not read."""
    return {ANY_RUN: ".*", UNREAD: "."}.get(sign, f"[{sign}{UNREAD}]")
