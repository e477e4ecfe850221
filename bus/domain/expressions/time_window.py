"""Times of day and days of the week in the zone of a window. Pure: times come in."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import get_args
from zoneinfo import ZoneInfo

from bus.contracts.expressions import TimeWindow, Weekday

WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_MINUTES_OF_DAY = 24 * 60


def minute_of_day(text: str) -> int | None:
    """Of `08:30`; None for what is none. `24:00` is the end of the day."""
    if text == "24:00":
        return _MINUTES_OF_DAY
    found = _TIME.fullmatch(text)
    return int(found[1]) * 60 + int(found[2]) if found else None


def is_within(window: TimeWindow, time_ms: int) -> bool:
    """Whether a time lies in a window that was checked."""
    try:
        local = datetime.fromtimestamp(time_ms / 1000, _zone(window.zone))
    except (ValueError, OverflowError, OSError):  # no calendar has it
        return False
    begin, end = minute_of_day(window.begin), minute_of_day(window.end)
    if begin is None or end is None:
        return False
    minute, weekday = local.hour * 60 + local.minute, local.weekday()
    if begin < end:
        return begin <= minute < end and _has_day(window, weekday)
    if minute >= begin:
        return _has_day(window, weekday)
    return minute < end and _has_day(window, weekday - 1)


def _has_day(window: TimeWindow, weekday: int) -> bool:
    return not window.days or WEEKDAYS[weekday % 7] in window.days


@lru_cache(maxsize=16)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
