"""Cells become summaries per minute; whole minutes become incidents."""

from __future__ import annotations

from bus.contracts.meters import LatencyCell
from bus.domain.times import MINUTE_MS
from monitor.models.histogram import histogram
from monitor.models.hysteresis import Hysteresis
from monitor.models.latency import LatencyIncidents, latency_window, summaries

RULE = Hysteresis(10_000, 8_000, 2, 2)


def cell(
    minute: int, values_ms: list[int], camera: str = "10.0.0.1", district: str = "d",
    attempt: int = 1,
) -> LatencyCell:
    return LatencyCell(
        kind="vehicle", district_id=district, camera_ip=camera, minute_ms=minute * MINUTE_MS,
        buckets=histogram(values_ms), attempt=attempt,
    )  # fmt: skip


def test_a_minute_is_summarised_for_all_each_district_and_each_device() -> None:
    """Two cameras of two districts give five rows."""
    cells = [cell(1, [10] * 9, "a", "north"), cell(1, [50], "b", "south")]
    rows = {(s.scope, s.scope_id): s for s in summaries(cells)}
    assert set(rows) == {("all", ""), ("district", "north"), ("district", "south"),
                         ("device", "a"), ("device", "b")}  # fmt: skip
    assert (rows["all", ""].count, rows["all", ""].p50_ms, rows["all", ""].max_ms) == (10, 10, 50)


def test_an_older_state_of_a_cell_changes_nothing() -> None:
    """The highest attempt is the newest, in any order of arrival, even if it has less: an attempt
    that never counted may have published more."""
    window = latency_window()
    window.add([cell(1, [10, 20], attempt=2)])
    assert window.add([cell(1, [10, 20, 30], attempt=1)]) == set()
    assert window.add([cell(1, [10], attempt=3)]) == {MINUTE_MS}
    assert summaries(window.between(0, 2 * MINUTE_MS))[0].count == 1


def test_minutes_beyond_the_horizon_are_dropped() -> None:
    """The window keeps two hours."""
    window = latency_window(keep_minutes=3)
    window.add([cell(minute, [1]) for minute in range(1, 20)])
    window.trim(19 * MINUTE_MS)
    assert min(window.minutes) == 16 * MINUTE_MS


def test_a_device_whose_clock_is_far_ahead_takes_nobody_s_minutes() -> None:
    """What broke: its minute was taken for the present, and every true one was dropped."""
    window = latency_window(keep_minutes=3)
    window.add([cell(minute, [1]) for minute in (18, 19, 20, 40_000_000)])
    window.trim(19 * MINUTE_MS)
    assert sorted(window.minutes) == [18 * MINUTE_MS, 19 * MINUTE_MS, 20 * MINUTE_MS]


def judged(watch: LatencyIncidents, minutes: list[list[int]]) -> list[tuple[str, str]]:
    found = []
    for minute, values_ms in enumerate(minutes, start=100):
        made = summaries([cell(minute, values_ms)] if values_ms else [])
        found += watch.judge(made, (minute + 1) * MINUTE_MS)
    return [(i.state, i.detail["scope"]) for i in found]


def test_late_minutes_open_one_incident_per_scope_and_good_ones_close_it() -> None:
    """Once per incident with its end, not per record (L-3)."""
    watch = LatencyIncidents(RULE)
    late, good = [30_000] * 30, [100] * 30
    assert judged(watch, [late] * 5 + [good] * 5) == [
        ("open", "all"), ("open", "district"), ("closed", "all"), ("closed", "district"),
    ]  # fmt: skip


def test_a_few_late_records_are_no_incident() -> None:
    """A minute of three records says nothing about a district."""
    assert judged(LatencyIncidents(RULE), [[30_000] * 3] * 10) == []


def test_minutes_without_records_close_an_open_incident() -> None:
    """Nothing was late in them."""
    assert judged(LatencyIncidents(RULE), [[30_000] * 30] * 3 + [[]] * 3)[-1][0] == "closed"


def test_a_new_process_goes_on_with_an_open_incident() -> None:
    """It closes under the id under which it was opened."""
    first = LatencyIncidents(RULE)
    late = [cell(m, [30_000] * 30) for m in (100, 101)]
    opened = first.judge(summaries(late), 102 * MINUTE_MS)
    second = LatencyIncidents(RULE)
    for incident in opened:
        second.resume(incident)
    good = [cell(m, [10] * 30) for m in (110, 111)]
    closed = second.judge(summaries(good), 112 * MINUTE_MS)
    assert {i.incident_id for i in closed} == {i.incident_id for i in opened}
    assert {i.state for i in closed} == {"closed"}
