"""Clocks that are off are found from arrivals, and the event time of a record is right again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS
from bus.settings import SiteSettings
from ingest.normalise import ClockEstimates, ClockLimits, clock_limits
from ingest.normalise.clock import clock_off_ms
from ingest.normalise.device_clocks import (
    MAX_DEVICES,
    MAX_NAME,
    DelayReader,
    Readings,
    bounded,
    merged_readings,
)

START_MS = 1_791_000_000_000 - 1_791_000_000_000 % MINUTE_MS
LIMITS = clock_limits(SiteSettings())
CAMERA = "10.0.0.1"
Off = Callable[[int], int]
"""By how much a clock is ahead in this minute, counted from the start."""


class JudgedCamera:
    """One device whose records ingest judges and stores, a batch a minute, and what comes of it."""

    def __init__(self, dice: random.Random, limits: ClockLimits = LIMITS) -> None:
        self.dice = dice
        self.estimates = ClockEstimates.create(limits, {})
        self.minute = 0

    def run(self, minutes: int, off: Off, late_ms: Off = lambda _: 0) -> list[list[int]]:
        """By how much (ms) the event time of each record was wrong, minute by minute: ahead is
        positive."""
        return [self._minute(off, late_ms) for _ in range(minutes)]

    def _minute(self, off: Off, late_ms: Off) -> list[int]:
        limits, errors = self.estimates.limits, []
        reader = DelayReader(limits)
        now_ms = START_MS + self.minute * MINUTE_MS
        for _ in range(self.dice.randint(3, 20)):
            received_ms = now_ms + self.dice.randrange(MINUTE_MS)
            way_ms = 150 + int(self.dice.expovariate(1 / 400))
            true_ms = received_ms - way_ms - late_ms(self.minute)
            claimed_ms = true_ms + off(self.minute)
            by_ms = clock_off_ms(claimed_ms, received_ms, limits, camera_ip=CAMERA)
            errors.append(claimed_ms - by_ms - true_ms)
            if reader.is_read(CAMERA, received_ms - claimed_ms):
                reader.add(CAMERA, received_ms, received_ms - claimed_ms)
        self.estimates = self.estimates.advanced(reader.readings)
        self.minute += 1
        return errors


def worst(errors: Iterable[list[int]]) -> int:
    """Of all records."""
    return max(abs(error) for minute in errors for error in minute)


def steady(off_ms: int) -> Off:
    return lambda _: off_ms


def drawn(dice: random.Random, *times: int) -> int:
    """One of these, more or less."""
    return int(dice.choice(times) * dice.uniform(0.9, 1.1))


def test_a_clock_that_is_ahead_is_corrected_after_a_few_minutes(dice: random.Random) -> None:
    """No backlog makes a record that arrives before it was captured."""
    camera = JudgedCamera(dice)
    ahead = steady(drawn(dice, 5_000, 3 * HOUR_MS, 400 * DAY_MS))
    camera.run(4, ahead)
    assert worst(camera.run(60, ahead)) < 5_000
    late = camera.run(10, ahead, late_ms=steady(45_000))
    assert worst(late) < 5_000 or ahead(0) < HOUR_MS, "what is late is late and not wrong"


def test_a_clock_that_is_behind_is_corrected_when_ten_minutes_agree(dice: random.Random) -> None:
    """Fewer could be a backlog. One that was never set is known at once."""
    camera = JudgedCamera(dice)
    behind = steady(-drawn(dice, 40_000, 3 * HOUR_MS, 80 * DAY_MS))
    assert worst(camera.run(9, behind)) > 30_000
    camera.run(2, behind)
    assert worst(camera.run(60, behind)) < 5_000
    unset = JudgedCamera(dice)
    unset.run(4, steady(-20_000 * DAY_MS))
    late = unset.run(8, steady(-20_000 * DAY_MS), late_ms=steady(90_000))
    assert worst(late) < 5_000, "what is late is late and not wrong"


@pytest.mark.parametrize("way", [1, -1])
def test_a_creeping_clock_is_followed(dice: random.Random, way: int) -> None:
    """A second in half an hour, much more than a real one, from five seconds or a minute on."""
    camera = JudgedCamera(dice)

    def creeping(minute: int) -> int:
        return way * ((5_000 if way > 0 else 60_000) + minute * 33)

    camera.run(12, creeping)
    errors = camera.run(300, creeping)
    assert worst(errors) < 5_000
    assert worst(errors[-60:]) < 5_000, "and not less and less"


def test_a_clock_that_is_set_in_the_middle_makes_no_record_worse(dice: random.Random) -> None:
    """From one error into none and into another. The estimate lags by minutes, and where a record
    itself tells that the clock was set, that is believed."""
    camera = JudgedCamera(dice)
    camera.run(12, steady(3 * HOUR_MS))
    assert worst(camera.run(30, steady(0))) < 5_000
    assert camera.estimates.corrected == {}
    camera.run(12, steady(-3 * HOUR_MS))
    assert worst(camera.run(30, steady(0))) < 5_000
    assert not camera.estimates.devices, "a healthy device is not remembered"
    camera.run(12, steady(HOUR_MS))
    assert worst(camera.run(12, steady(5 * HOUR_MS))) < 5_000, "by the arrival, then by the offset"
    assert worst(camera.run(12, steady(-40_000))) < 45_000
    assert worst(camera.run(12, steady(-40_000))) < 5_000


def test_an_outage_of_a_true_clock_corrects_nothing(dice: random.Random) -> None:
    """The records that the camera kept come late, by less in each minute; and a slow way is none of
    the clock's."""
    camera = JudgedCamera(dice)
    camera.run(20, steady(0))
    outage_ms = drawn(dice, 20 * MINUTE_MS, 5 * HOUR_MS)
    faster = dice.uniform(1.2, 30)

    def late_ms(minute: int) -> int:
        return max(0, outage_ms - int((minute - 20) * (faster - 1) * MINUTE_MS))

    errors = camera.run(200, steady(0), late_ms)
    errors += camera.run(60, steady(0), late_ms=steady(25_000))
    assert {error for minute in errors for error in minute} == {0}


def test_a_site_with_slow_ways_corrects_no_clock_that_is_behind(dice: random.Random) -> None:
    """`[site] clock_behind_seconds = 0`; those ahead all the same."""
    camera = JudgedCamera(dice, clock_limits(SiteSettings(clock_behind_seconds=0)))
    assert {e for minute in camera.run(40, steady(-60_000)) for e in minute} == {-60_000}
    camera.run(4, steady(60_000))
    assert worst(camera.run(10, steady(60_000))) < 5_000


def test_what_a_store_has_kept_is_corrected_from_the_first_record_on(dice: random.Random) -> None:
    """After a start nothing needs to be confirmed again."""
    camera = JudgedCamera(dice)
    camera.run(4, steady(3 * HOUR_MS))
    kept = camera.estimates.corrected
    camera.estimates = ClockEstimates.create(LIMITS, kept)
    assert worst(camera.run(20, steady(3 * HOUR_MS))) < 5_000


def test_a_batch_that_is_not_committed_leaves_the_estimate_as_it_was(dice: random.Random) -> None:
    """Tried again under the same number it must be corrected by the same."""
    camera = JudgedCamera(dice)
    camera.run(3, steady(HOUR_MS))
    before, offsets = camera.estimates, camera.estimates.corrected
    camera.run(3, steady(HOUR_MS))
    assert camera.estimates.changed_since(before) == camera.estimates.corrected != {}
    assert camera.estimates.version > before.version
    assert (before.corrected, before.changed_since(before)) == (offsets, None)


def test_readings_do_not_depend_on_who_reads_what_in_which_order(dice: random.Random) -> None:
    """Tasks read parts of a batch; the least of each device and minute comes out."""
    records = [
        (dice.choice("abc"), dice.randrange(6), dice.randrange(-9999, 9999)) for _ in range(200)
    ]
    parts, whole = [DelayReader(LIMITS) for _ in range(3)], DelayReader(LIMITS)
    for camera, minute, delay_ms in dice.sample(records, len(records)):
        received_ms = START_MS + minute * MINUTE_MS
        dice.choice(parts).add(camera, received_ms, delay_ms)
    for camera, minute, delay_ms in records:
        received_ms = START_MS + minute * MINUTE_MS
        whole.add(camera, received_ms, delay_ms)
    whole.add("", START_MS, HOUR_MS)
    whole.add("c" * (MAX_NAME + 1), START_MS, HOUR_MS)
    assert merged_readings(part.readings for part in parts) == whole.readings


@settings(max_examples=40)
@given(st.data())
def test_whatever_devices_write_the_estimate_is_bounded_and_repeatable(data: st.DataObject) -> None:
    """Times of any size, names of any kind, minutes in any order."""
    minutes = st.dictionaries(st.integers(-9, 9).map(lambda n: n * MINUTE_MS),
                              st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=5)  # fmt: skip
    readings = st.dictionaries(st.text(max_size=MAX_NAME + 2), minutes, max_size=3)
    given_batches = data.draw(st.lists(readings, max_size=6))
    found = []
    for _ in range(2):
        estimates = ClockEstimates.create(LIMITS, {})
        for one in given_batches:
            estimates = estimates.advanced(one)
        found.append(estimates)
    assert found[0] == found[1]
    assert found[0].corrected.keys() <= found[0].devices.keys() == found[0].limits.offsets.keys()


def test_of_too_many_devices_those_that_are_known_come_first() -> None:
    """All are late when the bus was away: that is no clock, and must not fill the driver."""
    readings: Readings = {f"{number:06d}": {0: HOUR_MS} for number in range(MAX_DEVICES + 10)}
    last = max(readings)
    found = bounded(readings, ClockEstimates.create(LIMITS, {last: -HOUR_MS}).limits)
    assert len(found) == MAX_DEVICES
    assert last in found
    estimates = ClockEstimates.create(LIMITS, {last: -HOUR_MS})
    for _ in range(2):
        estimates = estimates.advanced(readings)
        assert len(estimates.devices) <= MAX_DEVICES
