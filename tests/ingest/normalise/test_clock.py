"""Clock faults: ahead of the arrival, or older than anything that is kept. Late is not wrong."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.times import local_time
from bus.settings import SiteSettings
from ingest.normalise import ClockLimits, Envelope, clock_limits, normalise
from ingest.normalise.diagnostics import explain
from ingest.store.port import RecordRow

ZONE = "Asia/Shanghai"
NOW_MS = local_time(ZONE).to_ms("2026-10-10 12:00:00")
KEEP_90_DAYS = clock_limits(SiteSettings(keep_days=90))


def row(captured: str, *, clock: ClockLimits = ClockLimits(), replayed: bool = False) -> RecordRow:
    envelope = Envelope(received_at_ms=NOW_MS, record_id="x", clock=clock, replayed=replayed)
    value = msgspec.json.encode({"卡口编号": "c", "抓拍时间": captured, "车牌号码": "浙A1"})
    found = normalise(value, "vehicle", envelope, None, ZONE)
    assert isinstance(found, RecordRow)
    told = explain(value, "vehicle", ZONE, received_at_ms=NOW_MS, clock=clock, replayed=replayed)
    is_told = any(f.field == "抓拍时间" and "rrival" in f.message for f in told)
    assert is_told == bool(found.clock_off_ms), "check-message says what the store does"
    return found


@pytest.mark.parametrize(
    "captured",
    ["2099-01-01 00:00:00", "9999-12-31 23:59:59", "2026-10-10 12:10:01", "1970-01-01 08:00:05",
     "1980-01-06 00:00:00", "2000-01-01 00:12:00"],
)  # fmt: skip
def test_an_impossible_capture_time_is_ordered_by_arrival(captured: str) -> None:
    """Regression: the record of year 9999 was always listed first. The device's value is kept."""
    found = row(captured)
    assert found.captured_at_ms == NOW_MS
    assert found.claimed_at_ms == local_time(ZONE).to_ms(captured)


@pytest.mark.parametrize(
    "captured",
    ["2026-10-10 12:09:59", "2026-10-10 11:59:59", "2026-10-07 03:00:00", "2017-08-24 17:25:34"],
)
def test_behind_is_late_and_not_wrong(captured: str) -> None:
    """A camera back from an outage sends true old records; one some minutes ahead just drifts."""
    found = row(captured)
    assert (found.clock_off_ms, found.captured_at_ms) == (0, local_time(ZONE).to_ms(captured))


def test_what_is_older_than_the_store_keeps_is_a_clock_fault_unless_it_is_replayed() -> None:
    """Files sent again are old on purpose."""
    assert row("2026-06-01 00:00:00", clock=KEEP_90_DAYS).clock_off_ms < 0
    assert row("2026-06-01 00:00:00", clock=KEEP_90_DAYS, replayed=True).clock_off_ms == 0
    assert row("2026-09-01 00:00:00", clock=KEEP_90_DAYS).clock_off_ms == 0


def test_an_arrival_that_is_not_known_proves_nothing() -> None:
    """A producer on Kafka may have such a clock itself."""
    envelope = Envelope(received_at_ms=1000, record_id="x")
    value = msgspec.json.encode({"卡口编号": "c", "抓拍时间": "2026-10-10 12:00:00"})
    found = normalise(value, "vehicle", envelope, None, ZONE)
    assert isinstance(found, RecordRow)
    assert (found.clock_off_ms, found.captured_at_ms) == (0, NOW_MS)
