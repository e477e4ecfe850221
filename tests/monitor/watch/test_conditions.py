"""What is bad for longer than its bound is one incident with one end, whatever the clock does."""

from __future__ import annotations

import msgspec

from bus.contracts.alarms import Incident
from monitor.watch.conditions import CLOSE_MS, UNWATCHED_MS, Condition, ConditionTracker
from monitor.watch.watch_clock import MAX_STEP_MS, WatchClock

BEGIN = 1_000_000_000
SECOND = 1_000


class Course:
    """One condition, stepped second by second."""

    def __init__(self, start_ms: int = 0) -> None:
        self.clock = WatchClock(BEGIN)
        self.tracker = ConditionTracker(self.clock)
        self.start_ms = start_ms
        self.incidents: list[Incident] = []

    def lasts(self, is_bad: bool | None, seconds: int) -> None:
        for _ in range(seconds):
            self.at(self.clock.now_ms + SECOND, is_bad)

    def at(self, now_ms: int, is_bad: bool | None) -> None:
        self.clock.advance(now_ms)
        condition = Condition(
            "away", "edge", is_bad, 30_000, {"why": "refused"}, start_ms=self.start_ms
        )
        self.incidents += self.tracker.observe([condition])

    @property
    def states(self) -> list[str]:
        return [one.state for one in self.incidents]


def test_an_incident_opens_at_its_bound_and_is_named_by_the_first_bad_moment() -> None:
    """Not a second earlier, and once for as long as it lasts."""
    course = Course()
    course.lasts(False, 5)
    course.lasts(True, 30)
    assert course.incidents == []
    course.lasts(True, 600)
    (opened,) = course.incidents
    assert opened.opened_at_ms == BEGIN + 6 * SECOND
    assert opened.incident_id == f"away:edge:{opened.opened_at_ms}"
    assert opened.detail == {"subject": "edge", "bound_ms": "30000", "why": "refused"}


def test_it_ends_once_at_the_moment_it_became_good() -> None:
    """What comes and goes within seconds ends nothing."""
    course = Course()
    course.lasts(True, 60)
    course.lasts(False, 5)
    course.lasts(True, 60)
    assert course.states == ["open"]
    good_from = course.clock.now_ms + SECOND
    course.lasts(False, CLOSE_MS // SECOND + 60)
    assert course.states == ["open", "closed"]
    assert course.incidents[1].closed_at_ms == good_from
    assert course.incidents[1].incident_id == course.incidents[0].incident_id


def test_short_faults_are_no_incident() -> None:
    """A restart within the bound is the supervisor's business."""
    course = Course()
    for _ in range(50):
        course.lasts(True, 29)
        course.lasts(False, 1)
    assert course.incidents == []


def test_a_missing_answer_changes_nothing() -> None:
    """Neither opens nor ends."""
    course = Course()
    course.lasts(None, 600)
    assert course.incidents == []
    course.lasts(True, 40)
    course.lasts(None, 600)
    assert course.states == ["open"]


def test_what_was_never_well_may_take_longer_to_start() -> None:
    """Spark needs a minute; after that its bound is that of everybody."""
    course = Course(start_ms=120_000)
    course.lasts(True, 100)
    assert course.incidents == []
    course.lasts(False, 1)
    course.lasts(True, 31)
    assert course.states == ["open"]


def test_a_jump_of_the_clock_is_no_time_in_which_something_was_bad() -> None:
    """Forwards by an hour, back by a day: the bound is counted in seconds that passed."""
    course = Course()
    course.lasts(True, 10)
    for jump_ms in (3_600_000, -86_400_000, MAX_STEP_MS + 1):
        course.at(course.clock.now_ms + jump_ms, True)
    assert course.incidents == []
    course.lasts(True, 21)
    (opened,) = course.incidents
    assert opened.opened_at_ms == course.clock.now_ms - 30_000


def test_an_open_incident_of_an_earlier_process_is_neither_repeated_nor_forgotten() -> None:
    """It ends under its own name."""
    first = Course()
    first.lasts(True, 60)
    second = Course()
    second.tracker.resume(first.incidents[0])
    second.lasts(True, 600)
    assert second.incidents == []
    second.lasts(False, 20)
    (ended,) = second.incidents
    assert (ended.incident_id, ended.state) == (first.incidents[0].incident_id, "closed")


def test_an_incident_of_a_part_that_is_watched_no_longer_ends() -> None:
    """A broker that was taken out of the cluster, after the watch was restarted."""
    first = Course()
    first.lasts(True, 60)
    second = Course()
    second.tracker.resume(msgspec.structs.replace(first.incidents[0], detail={"subject": "gone"}))
    ended: list[Incident] = []
    for _ in range(UNWATCHED_MS // SECOND + 1):
        second.lasts(False, 1)
        ended += second.tracker.end_unwatched()
    assert [(one.state, one.detail["reason"]) for one in ended] == [("closed", "unwatched")]
    assert second.tracker.open_incidents() == []
