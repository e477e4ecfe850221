"""Texts of leaves in the form in which values are compared. Pure."""

from __future__ import annotations

import math

from bus.domain.plate_patterns import pattern_form
from bus.domain.plates import ANY_RUN, MARKS, UNREAD, folded, with_single_runs
from bus.domain.rule_values import PLATE, normal

_NO_MARKS = str.maketrans("", "", MARKS)


def wildcard_form(attribute: str, pattern: str) -> str:
    """With `?` and `*`."""
    return pattern_form(pattern) if attribute == PLATE else with_single_runs(normal(pattern))


def substring_form(attribute: str, text: str) -> str:
    """Of a plate letters and digits only."""
    return folded(text).translate(_NO_MARKS) if attribute == PLATE else normal(text)


def longest_run(form: str) -> str:
    """The longest text without `?` and `*` in a wildcard's form."""
    return max(form.replace(UNREAD, ANY_RUN).split(ANY_RUN), key=len)


def number_of(form: str) -> float | None:
    """A comparable value as a number; None for what is none."""
    if not form.isascii() or "_" in form:
        return None
    try:
        found = float(form)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def number_text(number: float) -> str:
    """`80`, `0.5`: as a person writes it."""
    is_whole = abs(number) < _LAST_WHOLE and number == int(number)
    return str(int(number)) if is_whole else repr(number)


_LAST_WHOLE = 1e15  # beyond it a whole number is shorter with its exponent
