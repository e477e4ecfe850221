"""The buttons of days: a moment belongs to the day that the site's clock says, also where clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.api.views import parse_time
from monitor.console.address import is_moment
from monitor.console.days import DAYS_BACK, day_before, span_of

# Changes at 01:00, 02:00 and 03:00, at midnight forwards (São Paulo 2018, Beirut), over midnight
# back (São Paulo), in the hour after midnight (Havana, Azores), by half an hour (Lord Howe), and a day
# that was left out (Apia, 2011-12-30).
ZONES = ("Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Beirut",
         "Atlantic/Azores", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York")  # fmt: skip
moments = st.integers(
    int(datetime(2010, 1, 2, tzinfo=UTC).timestamp()), int(datetime(2030, 1, 1, tzinfo=UTC).timestamp())
).map(lambda seconds: seconds * 1000)


def bounds(day: date, zone: ZoneInfo) -> tuple[int, int]:
    first, last = (parse_time(text, zone) for text in span_of(day))
    return first, last


@given(moments, st.sampled_from(ZONES), st.integers(-1, 2))
def test_a_moment_is_of_the_day_that_its_clock_says(at_ms: int, name: str, days: int) -> None:
    """Whatever day's button is pressed, what is found has that date and nothing else."""
    zone = ZoneInfo(name)
    day = day_before(at_ms, zone, days)
    first, last = bounds(day, zone)
    for ms in (at_ms, first - 1, first, last - 1, last):
        if first == last:  # the day that was left out
            continue
        assert (first <= ms < last) == (datetime.fromtimestamp(ms / 1000, zone).date() == day)


@pytest.mark.parametrize(
    ("name", "now", "hours"),
    [
        ("Europe/Berlin", "2026-03-30T08:00", 23),
        ("Europe/Berlin", "2026-10-26T08:00", 25),
        ("America/Havana", "2026-11-02T08:00", 25),
        ("Asia/Shanghai", "2026-11-28T00:10", 24),
    ],
)
def test_yesterday_is_as_long_as_it_was(name: str, now: str, hours: int) -> None:
    """24 hours back would begin in the wrong day twice a year."""
    zone = ZoneInfo(name)
    now_ms = round(datetime.fromisoformat(now).replace(tzinfo=zone).timestamp() * 1000)
    yesterday = day_before(now_ms, zone, DAYS_BACK["yesterday"])
    first, last = bounds(yesterday, zone)
    assert yesterday == datetime.fromisoformat(now).date() - timedelta(1)
    assert last - first == hours * 3_600_000


def test_the_address_takes_what_a_button_writes() -> None:
    """It stands there as a moment like one that was typed."""
    assert all(map(is_moment, span_of(date(2026, 3, 29))))
