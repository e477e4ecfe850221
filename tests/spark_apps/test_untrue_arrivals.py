"""A producer's time that cannot be an arrival: the capture stands, whoever reads it and whenever."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.contracts.register import Register
from bus.contracts.topics import DAY_MS, TOPICS
from bus.domain.times import MINUTE_MS
from ingest.normalise import ClockLimits
from ingest.normalise.clock import FIRST_TRUE_MS, NO_RETENTION_MS, at_minute, is_arrival
from ingest.store.port import RecordRow, RejectedRow
from spark_apps.apps.ingest import latency_cells, store_batch
from spark_apps.batches.committed_batch import unarrived_of
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge, judge_messages

ZONE = "Asia/Shanghai"
NOW_MS = 1_795_874_400_000
IN_2015_MS = 1_420_070_400_000
LIMITS = at_minute(ClockLimits(), NOW_MS)
TOPIC = "data.vehicle"
KEPT_MS = TOPICS[TOPIC].retention_ms
times = st.integers(FIRST_TRUE_MS, NOW_MS + 40_000 * DAY_MS)


def message(
    captured_at_ms: int, told_ms: int, received_at: str | None = None, **fields: str
) -> StreamMessage:
    written = datetime.fromtimestamp(captured_at_ms / 1000, ZoneInfo(ZONE))
    value = {"卡口编号": "330100#6", "抓拍时间": f"{written:%Y-%m-%d %H:%M:%S}", "车牌号码": "浙G80001"}
    body = msgspec.json.encode(value | fields)
    return StreamMessage(TOPIC, 0, 7, told_ms, body, received_at=received_at)


def stored(one: StreamMessage, limits: ClockLimits = LIMITS) -> RecordRow:
    row = judge(one, Register(), ZONE, limits).row
    assert isinstance(row, RecordRow)
    return row


def test_a_record_of_now_with_a_time_of_2015_is_found_today() -> None:
    """It was stored and alarmed under 2015. It is in no latency, and counted."""
    row = stored(message(NOW_MS, IN_2015_MS))
    assert (row.captured_at_ms, row.clock_off_ms, row.has_untrue_arrival) == (NOW_MS, 0, True)
    assert row.times_ms == (NOW_MS,)
    batch = judge_messages([message(NOW_MS, IN_2015_MS)], Register(), ZONE, LIMITS)
    [one] = store_batch(batch.records).rows
    one = replace(one, stored_at_ms=NOW_MS + 500)
    assert latency_cells([one]) == []
    assert unarrived_of([one]) == {"vehicle": 1}
    sound = replace(stored(message(NOW_MS, NOW_MS + 300)), stored_at_ms=NOW_MS + 500)
    assert len(latency_cells([sound])) == 1
    assert unarrived_of([sound]) == {}


def test_cameras_of_other_years_are_ordered_by_kafkas_time() -> None:
    """As before: 2099 lies in every reader's future, and 1970 is older than any message."""
    for captured in ("2099-01-01 00:00:00", "1970-01-01 08:00:00"):
        one = message(NOW_MS, NOW_MS, 抓拍时间=captured)
        row = stored(one)
        assert (row.captured_at_ms, row.received_at_ms) == (NOW_MS, NOW_MS)
        assert row.is_ordered_by_arrival


def test_an_arrival_that_an_edge_has_noted_is_one_in_any_case() -> None:
    """Its clock is ours; a camera ahead of it is a clock fault."""
    row = stored(message(NOW_MS, NOW_MS, received_at=str(IN_2015_MS)))
    assert (row.captured_at_ms, row.received_at_ms) == (IN_2015_MS, IN_2015_MS)


def test_a_rejected_record_is_listed_under_its_capture() -> None:
    """Lists of rejected records go by the arrival: it would be the last of all, and the first to be
    deleted."""
    row = judge(message(NOW_MS, IN_2015_MS, 卡口编号=""), Register(), ZONE, LIMITS).row
    assert isinstance(row, RejectedRow)
    assert (row.received_at_ms, row.captured_at_ms) == (NOW_MS, NOW_MS)


def test_a_message_without_a_time_is_no_fault() -> None:
    """Kafka writes -1 where a producer told none; nothing is known then, as before."""
    row = stored(message(NOW_MS, -1))
    assert (row.captured_at_ms, row.has_untrue_arrival, row.times_ms) == (NOW_MS, False, (NOW_MS,))
    assert stored(message(NOW_MS, 0)).has_untrue_arrival


@given(times, times, st.sampled_from([-1, 0, DAY_MS, KEPT_MS]), st.integers(0, 60 * MINUTE_MS))
def test_it_is_the_producers_time_exactly_where_the_topic_could_not_have_kept_the_record(
    captured_ms: int, told_ms: int, kept_ms: int, ahead_ms: int
) -> None:
    """30 days where there is no retention."""
    limits = LIMITS._replace(ahead_ms=ahead_ms)
    kept = kept_ms if kept_ms > 0 else NO_RETENTION_MS
    is_possible = captured_ms <= limits.now_ms + ahead_ms
    is_too_old = told_ms + kept + ahead_ms + MINUTE_MS < captured_ms
    assert is_arrival(told_ms, captured_ms, kept_ms, limits) == (not (is_possible and is_too_old))


@given(times, times, st.lists(st.integers(0, 100 * DAY_MS), min_size=2, max_size=5))
def test_every_reader_and_rebuild_and_site_says_the_same(
    captured_ms: int, told_ms: int, later_ms: list[int]
) -> None:
    """At any later time, for every record whose capture is in nobody's future."""
    assume(captured_ms <= NOW_MS)
    found = {
        is_arrival(told_ms, captured_ms, KEPT_MS, at_minute(ClockLimits(), NOW_MS + by_ms))
        for by_ms in later_ms
    }
    assert len(found) == 1


@given(times, times, st.integers(0, KEPT_MS))
def test_a_true_arrival_is_never_taken_for_an_untrue_one(
    captured_ms: int, told_ms: int, age_ms: int
) -> None:
    """As long as the topic holds the record, whatever its camera writes."""
    assert is_arrival(told_ms, captured_ms, KEPT_MS, at_minute(ClockLimits(), told_ms + age_ms))
