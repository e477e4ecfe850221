"""Plates as SQLite finds them: whole ones by their key, partly read ones by their form. Pure.

In: what was asked for. Out: where in the index to look, and conditions on what stands there. Never:
a value inside the SQL text. The forms are those of `bus.domain.plates`: of a partly read plate `?`
stands for a character that was not read, and a hyphen for one or for none.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.plate_search import patterns
from bus.domain.plates import ANY_RUN, HYPHEN, UNREAD
from bus.domain.tolerant_search import TolerantPlate, accepts, beginnings, ending
from ingest.store.sqlite.facets import FACET_PARTLY_READ, FACET_PLATE, FACET_PLATE_REVERSED

_LAST_CHARACTER = "\U0010ffff"
_PlaceRow = tuple[int, str, str]
Condition = tuple[str, list[object]]
"""SQL and the values of its marks."""


def places(plate: str) -> Condition:
    """A table of the parts of the index in which the plates lie: facet, first and last value."""
    asked = patterns(plate)
    # Two patterns are one text, with its hyphens and without: the shorter beginning is of both.
    prefix = min(map(_begin, asked), key=len)
    suffix = min((_begin(one[::-1]) for one in asked), key=len)
    last = prefix if asked == (prefix,) else prefix + _LAST_CHARACTER
    # Of a partly read plate the first character may be what was not read.
    begins = (prefix[:1], UNREAD) if prefix else ("",)
    rows = [(FACET_PLATE, prefix, last)]
    if len(suffix) > len(prefix):
        rows = [_beginning_with(FACET_PLATE_REVERSED, suffix)]
    rows += [_beginning_with(FACET_PARTLY_READ, begin) for begin in begins]
    return _table(rows)


def tolerant_places(asked: TolerantPlate) -> Condition:
    """The same for a plate that may have been read otherwise."""
    return _table([
        *(_beginning_with(FACET_PLATE, begin) for begin in beginnings(asked)),
        _beginning_with(FACET_PLATE_REVERSED, ending(asked)[::-1]),
        _beginning_with(FACET_PARTLY_READ, ""),
    ])  # fmt: skip


def tolerates(asked: TolerantPlate, form: str) -> bool:
    """Called by SQL: whether a plate of that form is taken for the one that is asked for."""
    return accepts(asked, form)


def tolerates_reversed(asked: TolerantPlate, value: str) -> bool:
    """The same of a whole plate from its end, unless it lies in a place of its beginning, too."""
    form = value[::-1]
    return not form.startswith(beginnings(asked)) and accepts(asked, form)


FITS_TOLERANT_ENTRY = (
    f"(CASE f.facet WHEN {FACET_PLATE_REVERSED} THEN tolerates_reversed(f.value)"
    " ELSE tolerates(f.value) END)"
)
"""Whether an entry of the index is taken for the plate that is asked for, and no other entry of its
record is."""


def _begin(pattern: str) -> str:
    return pattern.split(ANY_RUN)[0].split(UNREAD)[0]


def _beginning_with(facet: int, begin: str) -> _PlaceRow:
    return facet, begin, begin + _LAST_CHARACTER


def _table(rows: Sequence[_PlaceRow]) -> Condition:
    marks = ",".join(["(?,?,?)"] * len(rows))
    return f"(SELECT column1 facet, column2 first, column3 last FROM (VALUES {marks}))", [
        value for row in rows for value in row
    ]


def fits_entry(plate: str) -> Condition:
    """Whether an entry of the index, whole or partly read, is what was asked for."""
    whole, of_whole = fits_key("f.value", plate)
    backwards, of_backwards = fits_key("f.value", plate, from_end=True)
    partly, of_partly = fits_form("f.value", plate)
    sql = (
        f"(CASE f.facet WHEN {FACET_PLATE} THEN {whole}"
        f" WHEN {FACET_PLATE_REVERSED} THEN {backwards} ELSE {partly} END)"
    )
    return sql, of_whole + of_backwards + of_partly


def fits_key(column: str, plate: str, *, from_end: bool = False) -> Condition:
    """Whether a whole plate, written from its beginning or from its end, is what was asked for."""
    found = [one[::-1] if from_end else one for one in patterns(plate)]
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
