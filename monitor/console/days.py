"""Days of the site's calendar (pure): today and the days before it, as an address names them.

In: the moment, the site's zone. Out: a day, its beginning and its end on the site's clock. Never:
24 hours taken for a day; where clocks change it has 23 or 25.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

DAYS_BACK = {"today": 0, "yesterday": 1}
"""The days that have a button of their own."""


def day_before(now_ms: int, zone: ZoneInfo, days: int) -> date:
    """The day that was so many days ago at the site."""
    return datetime.fromtimestamp(now_ms / 1000, zone).date() - timedelta(days)


def span_of(day: date) -> tuple[str, str]:
    """Its first moment and that of the next day; the second one is no part of it."""
    return f"{day} 00:00", f"{day + timedelta(1)} 00:00"
