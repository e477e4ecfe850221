"""Clocks that were made wrong on purpose, and ways that are only slow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts.meters import LatencyCell
from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS
from monitor.models.device_clock import (
    BEHIND_MS,
    ClockEstimate,
    LeastLatency,
    estimate,
    readings_of,
)
from monitor.models.histogram import histogram

START_MS = 29_000_000 * MINUTE_MS
DICE = st.integers(0, 1 << 30).map(random.Random)


def exact(delays: list[int]) -> ClockEstimate | None:
    """The estimate when each minute had this least delay."""
    return estimate([LeastLatency(START_MS + m * MINUTE_MS, d) for m, d in enumerate(delays)])


def of_cells(delays: list[int], dice: random.Random) -> ClockEstimate | None:
    """The same from what the store has: histograms, with later records in them."""
    cells = [
        LatencyCell(
            kind=dice.choice(("vehicle", "face")), district_id="d", camera_ip="c",
            minute_ms=START_MS + m * MINUTE_MS,
            buckets=histogram([d, *(d + dice.randrange(30_000) for _ in range(3))]),
        )
        for m, d in enumerate(delays)
    ]  # fmt: skip
    return estimate(readings_of(cells), least_jump_ms=BEHIND_MS)


def way(dice: random.Random) -> int:
    """What a record needs from the camera to the store, at least."""
    return 80 + int(dice.expovariate(1 / 120))


def backlog(away_minutes: int, speed: float, dice: random.Random) -> list[int]:
    """What a camera kept while it was away, sent faster than it was made."""
    behind_ms, delays = away_minutes * MINUTE_MS, []
    while behind_ms > 0:
        delays.append(behind_ms + way(dice))
        behind_ms -= round((speed - 1) * MINUTE_MS)
    return delays


@given(st.integers(-DAY_MS, DAY_MS), st.integers(-150, 150), DICE)
@settings(max_examples=40, deadline=None)
def test_offset_and_drift_of_a_made_clock_are_found(
    offset_ms: int, ppm: int, dice: random.Random
) -> None:
    """Within the noise of the way, after six hours; no jump is made up."""
    per_minute = ppm * MINUTE_MS / 1e6
    found = exact([way(dice) - offset_ms - round(per_minute * m) for m in range(360)])
    assert found is not None
    assert found.offset_ms == pytest.approx(offset_ms + per_minute * 360, abs=600)
    assert found.drift_ppm == pytest.approx(ppm, abs=15)
    assert (found.jumps, found.minutes > 340) == ((), True)


@given(st.integers(3_000, 90_000_000), st.booleans(), st.integers(11, 400), DICE)
@settings(max_examples=60, deadline=None)
def test_a_jump_is_found_with_its_time_and_size(
    size_ms: int, ahead: bool, before: int, dice: random.Random
) -> None:
    """And the offset is that after it."""
    jump_ms = size_ms if ahead else -size_ms
    found = exact([way(dice) for _ in range(before)] + [way(dice) - jump_ms for _ in range(30)])
    assert found is not None
    [jump] = found.jumps
    assert jump.at_ms == pytest.approx(START_MS + before * MINUTE_MS, abs=2 * MINUTE_MS)
    assert jump.by_ms == pytest.approx(jump_ms, abs=900)
    assert found.offset_ms == pytest.approx(jump_ms, abs=900)


@given(st.integers(2, 600), st.floats(1.05, 60), st.booleans(), DICE)
@settings(max_examples=30, deadline=None)
def test_a_backlog_looks_like_no_offset(
    away_minutes: int, speed: float, is_new: bool, dice: random.Random
) -> None:
    """Of a camera back from an outage, also of one that nobody knows yet, at any moment of it: one
    drained at twice the speed shifted the level, since its fall passed for noise."""
    delays = [] if is_new else [way(dice) for _ in range(60)]
    delays += backlog(away_minutes, speed, dice)
    for until in dice.choices(range(1, len(delays) + 1), k=5):
        found = exact(delays[:until])
        assert found is None or not found.is_off, until
    found = exact(delays + [way(dice) for _ in range(30)])
    assert found is not None
    assert abs(found.offset_ms) < 1_500
    assert found.jumps == ()


@given(st.integers(2, 1_440), st.floats(2, 60), st.booleans(), DICE)
@settings(max_examples=30, deadline=None)
def test_nor_does_it_in_histograms(
    away_minutes: int, speed: float, is_new: bool, dice: random.Random
) -> None:
    """Their buckets are twenty minutes wide at ten hours: ten minutes of a backlog look alike."""
    delays = [] if is_new else [way(dice) for _ in range(60)]
    delays += backlog(away_minutes, speed, dice)
    for until in dice.choices(range(1, len(delays) + 1), k=5):
        found = of_cells(delays[:until], dice)
        assert found is None or not found.is_off, until
    found = of_cells(delays + [way(dice) for _ in range(30)], dice)
    assert found is not None
    assert (abs(found.offset_ms) < 1_500, found.jumps) == (True, ())


@given(st.integers(-DAY_MS, DAY_MS), DICE)
@settings(max_examples=40, deadline=None)
def test_an_offset_is_found_in_histograms_as_well_as_they_tell(
    offset_ms: int, dice: random.Random
) -> None:
    """3 % of it."""
    found = of_cells([way(dice) - offset_ms for _ in range(200)], dice)
    assert found is not None
    assert found.offset_ms == pytest.approx(offset_ms, abs=600 + abs(offset_ms) * 0.032)
    assert found.jumps == ()


def test_drift_is_found_in_histograms_of_a_day_unless_the_offset_makes_them_coarse(
    dice: random.Random,
) -> None:
    """A hundred millionths from an offset of three seconds on; from three hours on nobody knows."""
    creeping = [way(dice) + 3_000 + round(m * 6) for m in range(1_440)]
    found = of_cells(creeping, dice)
    assert found is not None
    assert found.drift_ppm == pytest.approx(-100, abs=15)
    assert found.jumps == ()
    coarse = of_cells([d + 3 * HOUR_MS for d in creeping], dice)
    assert coarse is not None
    assert (coarse.drift_ppm, coarse.jumps) == (None, ())


@given(st.integers(0, 8_000), DICE)
@settings(max_examples=40, deadline=None)
def test_a_slow_and_uneven_way_is_no_wrong_clock(mean_ms: int, dice: random.Random) -> None:
    """Every minute's least delay is another."""
    found = exact([80 + int(dice.expovariate(1 / (mean_ms + 1))) for _ in range(600)])
    assert found is not None
    assert (found.is_off, found.jumps) == (False, ())


def test_a_clock_that_was_never_set_is_found_and_its_setting_is_a_jump(dice: random.Random) -> None:
    """No record is half a century late, however coarse its bucket."""
    unset_ms = 56 * 365 * DAY_MS
    found = of_cells([unset_ms + way(dice) for _ in range(20)], dice)
    assert found is not None
    assert found.offset_ms == pytest.approx(-unset_ms, rel=0.032)
    found = of_cells([unset_ms] * 20 + [way(dice) for _ in range(20)], dice)
    assert found is not None
    [jump] = found.jumps
    assert jump.at_ms == START_MS + 20 * MINUTE_MS
    assert abs(found.offset_ms) < 1_000


def test_without_records_nothing_is_known() -> None:
    """Nor from two minutes that contradict one another."""
    assert estimate(readings_of([])) is None
    assert exact([300, 900_000]) is None
