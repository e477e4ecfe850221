"""An incident opens once and closes once, for any course of the level."""

from __future__ import annotations

import random

import pytest

from monitor.models.hysteresis import Hysteresis, HysteresisTracker, IncidentChange

RULE = Hysteresis(open_level=10, close_level=8, open_slots=3, close_slots=2)


def changes(levels: list[float], rule: Hysteresis = RULE) -> list[IncidentChange[str]]:
    watch: HysteresisTracker[str] = HysteresisTracker(rule)
    found = (watch.observe("x", slot, level) for slot, level in enumerate(levels, start=1))
    return [change for change in found if change]


def test_a_short_peak_opens_nothing() -> None:
    """A leaf on the lens disappears without an operator."""
    assert changes([20, 20, 1, 20, 20, 1]) == []


def test_a_lasting_fault_opens_once_and_is_named_by_its_first_bad_slot() -> None:
    """Two hundred bad slots are one message."""
    assert changes([1, 1, *[20] * 200]) == [IncidentChange("x", True, 3, 5, 20)]


def test_it_closes_once_when_the_level_stays_low() -> None:
    """The end of an incident carries the name of its beginning."""
    opened, closed = changes([20, 20, 20, 1, 20, 1, 1, 1, 1])
    assert (opened.opened_at_ms, closed.opened_at_ms, closed.at_ms) == (1, 1, 7)
    assert (opened.opened, closed.opened) == (True, False)


def test_a_level_between_the_bounds_neither_opens_nor_closes() -> None:
    """What flutters around the threshold opens one incident."""
    assert len(changes([20, 20, 20, *[9, 11] * 50])) == 1
    assert changes([9] * 50) == []


def test_a_slot_seen_again_changes_nothing() -> None:
    """Replays after a crash repeat slots."""
    watch: HysteresisTracker[str] = HysteresisTracker(RULE)
    assert [watch.observe("x", slot, 20) for slot in (1, 1, 1, 1)] == [None] * 4


def test_a_resumed_incident_closes_under_its_old_name() -> None:
    """A new process continues with incidents that an earlier one opened."""
    watch: HysteresisTracker[str] = HysteresisTracker(RULE)
    watch.resume("x", 77)
    found = [watch.observe("x", slot, 1) for slot in (100, 101)]
    assert found == [None, IncidentChange("x", False, 77, 101, 1)]


@pytest.mark.parametrize("run", range(20))
def test_opened_and_closed_always_alternate(dice: random.Random, run: int) -> None:
    """Property: no two openings without a closing between, each closing names its opening."""
    found = changes([dice.choice((1, 9, 20)) for _ in range(500)])
    assert [change.opened for change in found] == [i % 2 == 0 for i in range(len(found))]
    for opened, closed in zip(found[::2], found[1::2], strict=False):
        assert opened.opened_at_ms == closed.opened_at_ms


def test_quiet_subjects_are_forgotten_and_open_ones_kept() -> None:
    """Memory follows the devices that are there."""
    watch: HysteresisTracker[str] = HysteresisTracker(RULE)
    for slot in (1, 2, 3):
        watch.observe("open", slot, 20)
        watch.observe("quiet", slot, 1)
    watch.forget_before(100)
    assert watch.open_subjects() == ["open"]
    assert set(watch.runs) == {"open"}
