"""Wrong clocks are found from latencies, without blaming late records."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.meters import LatencyCell
from monitor.models.clock_faults import clock_off_ms, is_clock_off, sound_cells
from monitor.models.histogram import histogram

HOUR_MS = 3_600_000
TRUE_MS = st.lists(st.integers(20, 30_000), min_size=1, max_size=80)


def cell(camera_ip: str, values_ms: list[int], minute_ms: int = 0) -> LatencyCell:
    return LatencyCell(
        kind="vehicle", district_id="d", camera_ip=camera_ip, minute_ms=minute_ms,
        buckets=histogram(values_ms),
    )  # fmt: skip


@given(TRUE_MS)
def test_a_right_clock_is_never_blamed(values_ms: list[int]) -> None:
    """Up to half a minute is a slow way, for any distribution."""
    cells = [cell("a", values_ms)]
    assert sound_cells(cells) == (cells, {})


@given(TRUE_MS, st.one_of(st.integers(-20 * HOUR_MS, -HOUR_MS), st.integers(HOUR_MS, 10**12)))
def test_a_constant_offset_is_a_clock_and_is_measured(values_ms: list[int], off_ms: int) -> None:
    """Ahead or behind; the rest of the devices keep their latencies."""
    wrong, right = cell("wrong", [v - off_ms for v in values_ms]), cell("right", values_ms)
    sound, off = sound_cells([wrong, right])
    assert sound == [right]
    [(device, buckets)] = off.items()
    assert device == ("vehicle", "wrong")
    assert abs(clock_off_ms(buckets) - off_ms) <= 30_000 + abs(off_ms) * 0.04


def test_records_that_come_late_after_an_outage_are_no_clock(dice: random.Random) -> None:
    """Three hours of true old records: late by anything from nothing to three hours."""
    backlog = [HOUR_MS * 3 - i * 1_000 for i in range(10_000)]
    assert not is_clock_off(histogram(backlog))
    assert not is_clock_off(histogram(dice.choices(range(1_000, 2 * HOUR_MS), k=500)))


def test_a_clock_that_was_put_right_keeps_what_it_measured_afterwards() -> None:
    """Only the impossible records of such a device are left out: of the future, of 1970."""
    unset_ms = 56 * 365 * 24 * HOUR_MS
    sound, off = sound_cells([cell("a", [-HOUR_MS, unset_ms, *[300] * 100])])
    assert [one.buckets for one in sound] == [histogram([300] * 100)]
    assert off == {("vehicle", "a"): histogram([-HOUR_MS, unset_ms])}
