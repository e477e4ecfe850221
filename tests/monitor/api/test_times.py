"""Times as people and scripts write them, and as pages show them: for every text and every number."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from monitor.api.views import LAST_TIME_MS, clock, parse_time
from monitor.console.address import is_moment
from monitor.live.live_record import parse_device_time

ZONES = st.sampled_from(
    [ZoneInfo(name) for name in ("UTC", "Asia/Shanghai", "Europe/London", "Pacific/Apia")]
)
MOMENTS = st.integers(1, LAST_TIME_MS)
TIME_LIKE = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"\A\d{1,5}-\d{1,2}-\d{1,2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(Z|[+-]\d{2}:\d{2})?\Z"),
    st.integers().map(str),
)  # fmt: skip


@given(MOMENTS, ZONES)
def test_what_a_page_shows_can_be_searched_for(time_ms: int, zone: ZoneInfo) -> None:
    """The text names the same moment again; in the hour that a clock is put back, the same text."""
    shown = clock(time_ms, zone)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", shown) or shown == str(time_ms)
    if shown != str(time_ms):
        again_ms = parse_time(shown, zone)
        assert clock(again_ms, zone) == shown
        assert again_ms == time_ms or abs(again_ms - time_ms) <= 24 * 3_600_000


@given(st.integers(-(1 << 63), 1 << 63), ZONES)
@example(253402300799999, ZoneInfo("Asia/Shanghai"))
def test_any_number_in_a_record_is_shown(time_ms: int, zone: ZoneInfo) -> None:
    """A device's clock may say anything; before, the year 10000 of the site's zone ended the page."""
    assert isinstance(clock(time_ms, zone), str)
    assert (clock(time_ms, zone) == "") == (time_ms <= 0)


@given(TIME_LIKE, ZONES)
@example("0001-01-01", ZoneInfo("Asia/Shanghai"))
@example("9999-12-31 23:59:59", ZoneInfo("UTC"))
@example("9" * 40, ZoneInfo("UTC"))
@example("9" * 5000, ZoneInfo("UTC"))
@example("²" * 9, ZoneInfo("UTC"))
def test_any_text_is_a_time_that_a_store_can_compare_or_a_clear_error(
    text: str, zone: ZoneInfo
) -> None:
    """An answer 500 was what the year 1 got; a number of forty digits took the store away."""
    try:
        found_ms = parse_time(text, zone)
    except ValueError:
        return
    assert abs(found_ms) <= LAST_TIME_MS
    assert text.strip() or found_ms == 0


@given(TIME_LIKE, ZONES)
def test_any_capture_time_of_a_device_is_a_moment_or_unknown(text: str, zone: ZoneInfo) -> None:
    """A live row never fails because of a device's value."""
    assert isinstance(parse_device_time(text, zone), int)


@given(MOMENTS, ZONES, st.sampled_from([" ", "T"]))
def test_what_the_field_accepts_is_what_the_api_understands(
    time_ms: int, zone: ZoneInfo, between: str
) -> None:
    """To the minute, in the site's zone."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    text = f"{moment:%Y-%m-%d}{between}{moment:%H:%M}".rjust(16, "0")
    if is_moment(text):
        parsed_ms = parse_time(text, zone)
        assert parsed_ms % 60_000 == 0
        offset_ms = parsed_ms - time_ms // 60_000 * 60_000
        assert abs(offset_ms) <= 24 * 3_600_000


async def test_a_time_that_cannot_be_is_an_error_of_the_asker(as_role: Any) -> None:
    """422 with the reason, for every route that takes times."""
    client = as_role()
    for route in ("records", "records/count", "alarms", "latency", "quality"):
        for text in ("yesterday", "9" * 40, "10000-01-01"):
            reply = await client.get(f"/api/{route}", params={"from": text})
            assert reply.status_code == 422, (route, text)
        for text in ("0001-01-01", "9999-12-31 23:59"):
            reply = await client.get(f"/api/{route}", params={"from": text})
            assert reply.status_code in (200, 422), (route, text)
