"""A replay flows as the recording did, and liars do not hold it up."""

from __future__ import annotations

import random

import pytest

from ingest.senders.replay.schedule import LONGEST_GAP_MS, ReplaySchedule

T0 = 1_700_000_000_000


def test_at_own_pace_gaps_are_kept() -> None:
    pace = ReplaySchedule(1.0, start_ms=0)
    assert [pace.due_ms(T0 + ms) for ms in (0, 250, 1000, 1000, 4000)] == [0, 250, 1000, 1000, 4000]


def test_sixty_times_faster_an_hour_takes_a_minute() -> None:
    pace = ReplaySchedule(60.0, start_ms=0)
    assert [pace.due_ms(T0 + minute * 60_000) for minute in range(61)][-1] == pytest.approx(60_000)


def test_as_fast_as_possible_everything_is_due_at_once() -> None:
    pace = ReplaySchedule(None, start_ms=7)
    assert {pace.due_ms(T0 + ms) for ms in range(0, 10**7, 10**5)} == {7}


def test_a_camera_that_lives_in_1970_neither_waits_nor_makes_others_wait() -> None:
    pace = ReplaySchedule(1.0, start_ms=0)
    assert pace.due_ms(5_000) == 0  # even as the first record of the file
    assert pace.due_ms(T0) == 0
    assert pace.due_ms(6_000) == 0
    assert pace.due_ms(T0 + 300) == 300


def test_a_hole_in_the_recording_is_not_waited_for() -> None:
    pace = ReplaySchedule(1.0, start_ms=0)
    pace.due_ms(T0)
    assert pace.due_ms(T0 + LONGEST_GAP_MS + 1) == 0
    assert pace.due_ms(T0 + LONGEST_GAP_MS + 501) == 500


@pytest.mark.parametrize("seed", range(5))
def test_due_times_never_go_back_and_never_exceed_the_recording(seed: int) -> None:
    rng = random.Random(seed)
    pace, speed = ReplaySchedule(2.0, start_ms=0), 2.0
    times = [T0 + rng.randrange(3_600_000) for _ in range(500)]
    due = [pace.due_ms(ms) for ms in times]
    assert due == sorted(due)
    assert due[-1] <= (max(times) - times[0]) / speed


def test_a_speed_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ReplaySchedule(0.0, start_ms=0)
