"""Plates as SQLite finds them: whole ones by their key, partly read ones by their form. Pure.

In: what was asked for. Out: where in the index to look, and conditions on what stands there. Never:
a value inside the SQL text. The forms are those of `bus.domain.plates`: of a partly read plate `?`
stands for a character that was not read, and a hyphen for one or for none.
"""

from __future__ import annotations

from bus.domain.plate_search import patterns
from bus.domain.plates import ANY_RUN, HYPHEN, UNREAD
from ingest.store.sqlite.facets import FACET_PARTLY_READ, FACET_PLATE

_LAST_CHARACTER = "\U0010ffff"
Condition = tuple[str, list[object]]
"""SQL and the values of its marks."""


def places(plate: str) -> Condition:
    """A table of the parts of the index in which the plates lie: facet, first and last value."""
    asked = patterns(plate)
    # Two patterns are one text, with its hyphens and without: the shorter beginning is of both.
    prefix = min((one.split(ANY_RUN)[0].split(UNREAD)[0] for one in asked), key=len)
    last = prefix if asked == (prefix,) else prefix + _LAST_CHARACTER
    # Of a partly read plate the first character may be what was not read.
    begins = (prefix[:1], UNREAD) if prefix else ("",)
    rows = [(FACET_PLATE, prefix, last)]
    rows += [(FACET_PARTLY_READ, begin, begin + _LAST_CHARACTER) for begin in begins]
    marks = ",".join(["(?,?,?)"] * len(rows))
    return f"(SELECT column1 facet, column2 first, column3 last FROM (VALUES {marks}))", [
        value for row in rows for value in row
    ]


def fits_entry(plate: str) -> Condition:
    """Whether an entry of the index, whole or partly read, is what was asked for."""
    whole, of_whole = fits_key("f.value", plate)
    partly, of_partly = fits_form("f.value", plate)
    return f"(CASE f.facet WHEN {FACET_PLATE} THEN {whole} ELSE {partly} END)", of_whole + of_partly


def fits_key(column: str, plate: str) -> Condition:
    """Whether a whole plate is what was asked for."""
    found = patterns(plate)
    return _any(f"{column} GLOB ?", len(found)), list(found)


def fits_form(column: str, plate: str) -> Condition:
    """Whether a plate is what was asked for, read as far as it was: a letter or digit is met by
    itself and by an unread character."""
    globs = ["".join(map(_glob, one)) for one in patterns(plate)]
    readings = [f"replace({column}, '{HYPHEN}', '{one}')" for one in ("", UNREAD)]
    sql = _any(" OR ".join(f"{reading} GLOB ?" for reading in readings), len(globs))
    return f"({column} <> '' AND {sql})", [glob for glob in globs for _ in readings]


def _glob(sign: str) -> str:
    return sign if sign in (ANY_RUN, UNREAD) else f"[{sign}{UNREAD}]"


def _any(condition: str, count: int) -> str:
    return "(" + " OR ".join([condition] * count) + ")"
