"""What is learnt of a sender, and what follows from it for a silence."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_city import MONDAY_MS, ZONE

from bus.domain.times import HOUR_MS
from monitor.watch.habits import ASSUMED_P99, EDGES, HABIT_BYTES, MIN_GAPS, WEIGHT, Habit
from monitor.watch.senders import RecordSenders
from monitor.watch.watch_clock import HOUR_CLASSES, HourClasses, WatchClock, hour_class

CLASSES = HourClasses(ZONE)
MINUTE_MS = 60_000


def learnt(rate: float, hours: int = 9) -> Habit:
    """Every hour alike."""
    habit = Habit()
    for hour in range(HOUR_CLASSES):
        for _ in range(hours):
            habit.learn_hour(hour, rate)
    return habit


def test_hours_are_those_of_the_site_by_kind_of_day() -> None:
    """Workdays, Saturdays, Sundays."""
    assert hour_class(MONDAY_MS, ZONE) == 0
    assert hour_class(MONDAY_MS + 4 * 24 * HOUR_MS + 13 * HOUR_MS, ZONE) == 13
    assert hour_class(MONDAY_MS + 5 * 24 * HOUR_MS, ZONE) == 24
    assert hour_class(MONDAY_MS + 6 * 24 * HOUR_MS + 23 * HOUR_MS, ZONE) == 71


@pytest.mark.parametrize("rate", [3.0, 12.0, 60.0, 600.0])
def test_the_bound_is_four_times_the_p99_of_its_own_gaps(rate: float) -> None:
    """Against the p99 of the drawn gaps themselves; at most the uncertainty of nine hours and one
    bucket more, never less."""
    dice, habit = random.Random(7), learnt(rate)
    gaps = sorted(dice.expovariate(rate) * HOUR_MS for _ in range(5_000))
    for gap in gaps:
        habit.learn_gap(habit.expected(MONDAY_MS, MONDAY_MS + int(gap), CLASSES))
    p99_ms = gaps[int(0.99 * len(gaps))]
    due_ms = habit.due_ms(MONDAY_MS, 4, CLASSES)
    assert due_ms is not None
    doubt = rate / (rate - (rate / 9) ** 0.5)
    assert 4 * p99_ms * 0.99 <= due_ms - MONDAY_MS <= 4 * p99_ms * 1.2 * doubt


def test_a_clockwork_device_is_missed_sooner_than_one_that_sends_when_cars_come() -> None:
    """Its own gaps decide, not its rate alone."""
    habit = learnt(60)
    for _ in range(1_000):
        habit.learn_gap(1.0)
    due_ms = habit.due_ms(MONDAY_MS, 4, CLASSES)
    assert due_ms is not None
    assert due_ms - MONDAY_MS <= 5 * MINUTE_MS


def test_nothing_is_due_before_an_hour_is_known() -> None:
    """A new device is not missed on its first day."""
    assert Habit().due_ms(MONDAY_MS, 4, CLASSES) is None


def test_a_night_without_records_counts_nothing() -> None:
    """Silent since eleven: due when the morning has brought what is usual, not at midnight."""
    habit = Habit()
    for hour in range(HOUR_CLASSES):
        for _ in range(9):
            habit.learn_hour(hour, 0 if hour % 24 < 6 else 60)
    due_ms = habit.due_ms(MONDAY_MS, 4, CLASSES)
    assert due_ms is not None
    assert MONDAY_MS + 6 * HOUR_MS < due_ms < MONDAY_MS + 7 * HOUR_MS


def test_a_kind_of_day_not_yet_seen_is_expected_to_be_quiet() -> None:
    """The first Sunday: a quarter of the quietest day known."""
    habit = Habit()
    for hour in range(24):
        for _ in range(5):
            habit.learn_hour(hour, 100)
    mean, variance = habit.usual(9)
    assert habit.usual(48 + 9) == pytest.approx((mean / 4, variance / 16))


def test_the_doubts_of_many_hours_add_up_as_squares() -> None:
    """Before: subtracted hour by hour, eight records an hour known for a day were never enough, and
    a device silent for forty hours was not missed."""
    habit = learnt(4, hours=1)
    due_ms = habit.due_ms(MONDAY_MS, 1, CLASSES)
    assert due_ms is not None
    hours = (due_ms - MONDAY_MS) / HOUR_MS
    assert 4 * hours - (4 * hours) ** 0.5 == pytest.approx(ASSUMED_P99, abs=0.5)


def test_a_silence_is_judged_by_the_hours_in_which_it_could_be_seen() -> None:
    """Two hours of a day, a gap of any length, and the night: only what was seen counts."""
    habit = Habit()
    for hour in range(HOUR_CLASSES):
        for _ in range(9):
            habit.learn_hour(hour, 0 if hour % 24 < 6 else 60)
    noon_ms = MONDAY_MS + 12 * HOUR_MS
    whole_ms = habit.due_after_ms([(noon_ms, None)], 4, CLASSES)
    parts = [(noon_ms, noon_ms + HOUR_MS // 4), (MONDAY_MS + 24 * HOUR_MS, None)]
    cut_ms = habit.due_after_ms(parts, 4, CLASSES)
    assert whole_ms is not None
    assert cut_ms is not None
    assert whole_ms < HOUR_MS
    assert 6 * HOUR_MS < cut_ms < 7 * HOUR_MS


def test_the_clock_tells_in_which_hours_a_time_was_seen() -> None:
    """Over a clock that is set, and a time in which nothing could be seen."""
    clock = WatchClock(0)
    for now_ms in range(10_000, 60_001, 10_000):
        clock.advance(now_ms)
    clock.advance(660_000)  # set ahead by ten minutes
    clock.advance(670_000)
    for now_ms in range(680_000, 980_001, 10_000):
        clock.advance(now_ms, blind=True)
    clock.advance(990_000)
    assert clock.seen_ms == 80_000
    assert list(clock.parts_since(30_000)) == [
        (30_000, 60_000), (660_000, 670_000), (980_000, None)
    ]  # fmt: skip
    assert list(clock.parts_since(75_000)) == [(985_000, None)]


def test_few_gaps_are_not_believed() -> None:
    """Three records in a row are no habit."""
    habit = learnt(60)
    habit.learn_gap(0.1, MIN_GAPS - 1)
    assert habit.p99 == ASSUMED_P99
    habit.learn_gap(0.1)
    assert habit.p99 == EDGES[0]


def test_what_was_learnt_gives_way_to_what_is() -> None:
    """A street that was closed for half."""
    habit = learnt(100)
    for _ in range(10):
        habit.learn_hour(9, 20)
    assert habit.mean(9) < 30


@given(st.lists(st.floats(0, 1e6), max_size=200), st.integers(1, 300))
def test_a_habit_survives_its_file_and_its_counts_stay_bounded(
    gaps: list[float], times: int
) -> None:
    """Whatever is learnt."""
    habit = learnt(3)
    for gap in gaps:
        habit.learn_gap(gap, times)
    again = Habit.from_bytes(habit.to_bytes())
    assert again.to_bytes() == habit.to_bytes()
    assert len(habit.to_bytes()) < 1024
    with pytest.raises(ValueError, match="bytes"):
        Habit.from_bytes(habit.to_bytes()[:-1])


def test_a_silence_does_not_teach_that_silence_is_usual() -> None:
    """Before: a device that died at night halved its own rates hour by hour, and was missed late or
    never. Its empty hours count only when it is heard before it is overdue."""
    clock = WatchClock(MONDAY_MS)
    senders = RecordSenders(clock, ZONE)
    sender = senders.add("device", "a", "")
    assert sender is not None

    def hours(count: int, *, sends: bool) -> None:
        for step in range(count * 360):
            clock.advance(clock.now_ms + 10_000)
            if sends and step % 6 == 0:
                senders.record(sender, 1)
            senders.end_hour()

    hours(25, sends=True)
    before = sender.habit.to_bytes()
    hours(20, sends=False)
    assert sender.habit.to_bytes() == before
    senders.record(sender, 1)
    assert sender.habit.to_bytes() != before  # it was heard in time: so quiet can it be


@given(st.lists(st.floats(0, 3e7), min_size=1, max_size=20))
def test_a_rate_is_kept_within_a_thousandth_and_the_file_takes_nothing_from_it(
    records: list[float],
) -> None:
    """From a device that sends once a day to a site of ten thousand records a second; however often
    it is written and read."""
    habit, mean = Habit(), 0.0
    for known, one in enumerate(records):
        habit.learn_hour(5, one)
        mean += max(WEIGHT, 1 / (known + 1)) * (one - mean)
    assert habit.mean(5) == pytest.approx(mean, rel=2e-3, abs=1e-3)
    again = Habit.from_bytes(Habit.from_bytes(habit.to_bytes()).to_bytes())
    assert again.to_bytes() == habit.to_bytes()


@given(st.binary(min_size=HABIT_BYTES, max_size=HABIT_BYTES))
def test_of_a_damaged_file_a_habit_is_read_or_refused(data: bytes) -> None:
    """Never another error; what is read has a bound, or says that there is none."""
    try:
        habit = Habit.from_bytes(data)
    except ValueError:
        return
    assert habit.p99 > 0
    habit.due_ms(MONDAY_MS, 4, CLASSES)
