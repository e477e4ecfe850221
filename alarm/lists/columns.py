"""Which column of a table holds plates, notes and dates, by its headings or by what stands in it.
Pure.

In: the first rows of a table. Out: `ListColumns`, or `NoPlateColumn`. Never: a guess between two
columns that both are called plates: the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from bus.domain.list_check import is_list_plate
from bus.domain.plates import wanted_vehicle

HEADED_ROWS = 20
"""Above the headings there may be a title, who made it and when."""
SEEN_ROWS = 200
_LEAST_SHARE = 0.5  # of a column's values, so that it is taken for one of plates

_HEADINGS = {
    "plate": {
        "车牌", "车牌号", "车牌号码", "号牌", "号牌号码", "机动车号牌", "机动车号牌号码", "车号",
        "车辆号牌", "车辆牌号", "牌照", "牌照号", "hphm", "plate", "plates", "platenumber",
        "plateno", "licenseplate", "licenceplate", "licenseplatenumber", "licenceplatenumber",
        "registration", "registrationnumber",
    },
    "note": {
        "备注", "说明", "原因", "布控原因", "案由", "事由", "简要案情", "bz", "note", "notes",
        "remark", "remarks", "comment", "comments", "reason", "description",
    },
    "date": {
        "日期", "时间", "登记日期", "录入日期", "录入时间", "布控日期", "布控时间", "立案日期",
        "立案时间", "案发日期", "案发时间", "被盗日期", "起始日期", "date", "day", "since", "from",
        "datefrom", "stolen", "stolenon",
    },
}  # fmt: skip
_of_heading = re.compile(r"[\s_:：()（）*./-]+")
_is_day = re.compile(
    r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?(?:[ T]\d.*)?|(\d{4})(\d{2})(\d{2})"
).fullmatch


class NoPlateColumn(ValueError):
    """No column of the table holds plates."""


class ListColumns(NamedTuple):
    """Where what stands in a row, from 0; -1: nowhere. `first`: how many rows stand above."""

    plate: int
    note: int
    date: int
    first: int


@lru_cache(maxsize=4_096)
def day_of(text: str) -> str | None:
    """`2026-01-31` of what people write for it; None where it is no day."""
    found = _is_day(text.strip())
    if found is None:
        return None
    year, month, day = (int(part) for part in found.groups() if part is not None)
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def find_columns(rows: Sequence[Sequence[str]]) -> ListColumns:
    """Of the first `SEEN_ROWS` rows. Raises `NoPlateColumn`."""
    for number, row in enumerate(rows[:HEADED_ROWS]):
        found = {kind: _headed(row, names) for kind, names in _HEADINGS.items()}
        if found["plate"] >= 0:
            return ListColumns(found["plate"], found["note"], found["date"], number + 1)
    return _by_content(rows)


def has_heading(row: Sequence[str]) -> bool:
    """Whether one of its cells is the heading of plates."""
    return _headed([text.strip('" ') for text in row], _HEADINGS["plate"]) >= 0


def _headed(row: Sequence[str], names: set[str]) -> int:
    for place, text in enumerate(row):
        if heading_form(text) in names:
            return place
    return -1


def heading_form(text: str) -> str:
    """A heading without what people set into it, in small letters."""
    return _of_heading.sub("", text).lower()


def _by_content(rows: Sequence[Sequence[str]]) -> ListColumns:
    width = max(map(len, rows), default=0)
    plate = _mostly(rows, width, lambda text: is_list_plate(wanted_vehicle(text)), set())
    if plate < 0:
        seen = next((" | ".join(row)[:200] for row in rows if any(row)), "nothing")
        raise NoPlateColumn(
            f"no column holds plates; give the one that does the heading 车牌 or plate. The first "
            f"row is: {seen}"
        )
    day = _mostly(rows, width, lambda text: day_of(text) is not None, {plate})
    note = _mostly(rows, width, lambda text: not _is_number(text), {plate, day})
    is_heading = not is_list_plate(wanted_vehicle(_cell(rows[0], plate)))
    return ListColumns(plate, note, day, int(is_heading and len(rows) > 1))


def _mostly(
    rows: Sequence[Sequence[str]], width: int, is_one: Callable[[str], bool], taken: set[int]
) -> int:
    """The column with the most such values, if these are at least half of what stands in it."""
    best, place = 0, -1
    for column in range(width):
        values = [row[column] for row in rows if column < len(row) and row[column].strip()]
        count = sum(map(is_one, values))
        if column not in taken and count > best and count >= _LEAST_SHARE * len(values):
            best, place = count, column
    return place


def _cell(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()
