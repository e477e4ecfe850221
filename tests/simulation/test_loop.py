"""Virtual time: jumps, order, processes that pause and die."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings

import pytest

from tests.simulation.clock import SimClock
from tests.simulation.loop import START_S, ProcessLife, Stuck, VirtualLoop


def clock_of(loop: VirtualLoop, name: str) -> tuple[SimClock, ProcessLife]:
    life = ProcessLife(name)
    return SimClock(loop, life, random.Random(name)), life


def test_an_hour_passes_in_no_time_and_timers_run_in_their_order():
    """Three sleepers run in order, ties by age."""
    loop, order = VirtualLoop(), []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append((name, int(loop.time() - START_S)))

    async def story() -> None:
        await asyncio.gather(sleeper("b", 3600), sleeper("a", 60), sleeper("c", 3600))

    loop.run_until_complete(story())
    loop.close()
    assert order == [("a", 60), ("b", 3600), ("c", 3600)]


def test_a_paused_life_does_nothing_and_then_all_of_it_and_a_dead_one_nothing_ever():
    """Covers SIGSTOP, SIGCONT and SIGKILL."""
    loop, ticks = VirtualLoop(), []
    clock, life = clock_of(loop, "process")

    async def tick() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(int(loop.time() - START_S))

    async def story() -> None:
        clock.spawn(tick(), name="tick")
        await asyncio.sleep(2.5)
        loop.pause(life)
        await asyncio.sleep(5)
        loop.resume(life)
        await asyncio.sleep(1.7)
        life.die()
        loop.bury()
        await asyncio.sleep(10)

    loop.run_until_complete(story())
    assert ticks == [1, 2, 7, 8]
    loop.close()


def test_a_task_that_a_dead_life_spawns_is_kept_for_the_end_of_the_world():
    """A process that dies in the middle of a step goes on to the step's end, and may spawn there.
    Its task was collected with a RuntimeWarning: the coroutine was never awaited."""
    loop, ran = VirtualLoop(), []
    clock, life = clock_of(loop, "process")

    async def work() -> None:
        ran.append("work")

    async def story() -> None:
        life.die()
        loop.bury()
        clock.spawn(work(), name="work")
        clock.tasks.clear()
        await asyncio.sleep(1)

    gc.collect()  # what other tests left is theirs
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loop.run_until_complete(story())
        gc.collect()
        assert [task.get_name() for task in loop.graveyard if not task.done()][-1:] == ["work"]
        for task in loop.graveyard:
            task.get_coro().close()
        loop.graveyard.clear()
        gc.collect()
    loop.close()
    assert ran == []
    assert [str(one.message) for one in warned if one.category is RuntimeWarning] == []


def test_what_hangs_without_waiting_is_found():
    """The loop never lets time advance."""
    loop = VirtualLoop()

    async def story() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="time stands still"):
        loop.run_until_complete(story())


def test_a_world_without_anything_left_to_do_is_told():
    """The future is never completed."""
    loop = VirtualLoop()

    async def story() -> None:
        await loop.create_future()

    with pytest.raises(Stuck, match="nothing is left"):
        loop.run_until_complete(story())


def test_a_busy_life_comes_to_its_next_step_late_and_holds_up_nobody_else():
    """Each process has one CPU; steps that become due meanwhile keep their order."""
    loop, order = VirtualLoop(), []
    busy, _ = clock_of(loop, "busy")
    other, _ = clock_of(loop, "other")

    def note(name: str, clock: SimClock, cost_s: float = 0.0) -> None:
        began = clock.monotonic()
        clock.spend(cost_s)
        order.append((name, round(began - START_S, 1), round(clock.monotonic() - START_S, 1)))

    async def story() -> None:
        for name, delay_s, cost_s in (("first", 1, 2.0), ("second", 2, 0.5), ("third", 2.5, 0.0)):
            busy_step = lambda name=name, cost_s=cost_s: note(name, busy, cost_s)  # noqa: E731
            loop.call_later(delay_s, busy_step, context=busy._life.context)
        loop.call_later(2, lambda: note("beside", other), context=other._life.context)
        await asyncio.sleep(10)

    loop.run_until_complete(story())
    loop.close()
    assert order == [
        ("first", 1.0, 3.0), ("beside", 2.0, 2.0), ("second", 3.0, 3.5), ("third", 3.5, 3.5),
    ]  # fmt: skip
