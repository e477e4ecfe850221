"""The timing wheel against the simplest thing that could be right: a sorted list."""

from __future__ import annotations

import random

import pytest

from broker.purgatory.wheel import WHEEL_SIZE, TimingWheel, WheelEntry


class NaiveWheel:
    """A dictionary, searched from end to end."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}

    def advance(self, now_ms: int) -> list[int]:
        due = sorted(
            (deadline, name) for name, deadline in self.waiting.items() if deadline <= now_ms
        )
        for _, name in due:
            del self.waiting[name]
        return [name for _, name in due]


@pytest.mark.parametrize("seed", range(15))
def test_the_wheel_agrees_with_a_naive_model(seed: int) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    now_ms = dice.randrange(0, 10**9)
    wheel, naive = TimingWheel(now_ms), NaiveWheel()
    kept: dict[int, WheelEntry] = {}
    for name in range(400):
        action = dice.random()
        if action < 0.55:
            deadline = now_ms + dice.choice([-3, 0, 1, 2, 19, 20, 21, 399, 400, 401]) + (
                dice.randrange(0, 10 ** dice.randrange(1, 8))
            )
            entry = wheel.add(deadline, name)
            assert (entry is None) == (deadline <= now_ms)
            if entry is not None:
                kept[name] = entry
                naive.waiting[name] = deadline
        elif action < 0.75 and kept:
            victim = dice.choice(sorted(kept))
            assert wheel.cancel(kept.pop(victim))
            naive.waiting.pop(victim)
        else:
            now_ms += dice.randrange(0, 10 ** dice.randrange(1, 7))
            due = [entry.payload for entry in wheel.advance(now_ms)]
            expected = naive.advance(now_ms)
            assert sorted(due) == sorted(expected)
            for gone in due:
                assert not wheel.cancel(kept.pop(gone))
        assert len(wheel) == len(naive.waiting)
    upcoming = wheel.next_ms()
    if naive.waiting:
        assert upcoming is not None
        assert upcoming <= min(naive.waiting.values())
    else:
        assert upcoming is None


def test_entries_come_in_the_order_of_their_deadlines() -> None:
    wheel = TimingWheel(0)
    deadlines = [5000, 3, 399, 400, 20, 19, 1, 8001, 77]
    for deadline in deadlines:
        wheel.add(deadline, deadline)
    assert [entry.payload for entry in wheel.advance(10_000)] == sorted(deadlines)


def test_nothing_is_due_a_millisecond_early() -> None:
    wheel = TimingWheel(1000)
    wheel.add(1000 + WHEEL_SIZE**2 + 7, "late")
    assert wheel.advance(1000 + WHEEL_SIZE**2 + 6) == []
    assert [entry.payload for entry in wheel.advance(1000 + WHEEL_SIZE**2 + 7)] == ["late"]


def test_the_heap_of_buckets_stays_small_however_many_come_and_go() -> None:
    """A fetch that is answered at once adds and cancels; that must not leave anything behind."""
    wheel = TimingWheel(0)
    for now_ms in range(5_000):
        wheel.advance(now_ms)
        for delay in (500, 30_000):
            entry = wheel.add(now_ms + delay, None)
            assert entry is not None
            assert wheel.cancel(entry)
    assert len(wheel) == 0
    assert len(wheel._in_use) <= 2 * WHEEL_SIZE * len(wheel._levels)
