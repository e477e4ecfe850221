"""Tasks end when cancelled, and on-demand tasks run once at a time."""

from __future__ import annotations

import asyncio

import pytest

from broker.clock.real import RealClock
from broker.clock.tasks import OnDemandTask, cancel_and_wait


def test_whoever_ends_tasks_waits_until_the_last_is_gone() -> None:
    """One that tidies up is not cut short."""
    tidied: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append(number)

    async def story() -> None:
        clock = RealClock()
        tasks = [clock.spawn(work(number), name="work") for number in range(3)]
        await asyncio.sleep(0)
        await cancel_and_wait(tasks)
        assert sorted(tidied) == [0, 1, 2]

    asyncio.run(story())


def test_what_a_task_died_of_is_not_swallowed() -> None:
    """Only the cancellation is expected."""

    async def story() -> None:
        async def work() -> None:
            raise ValueError("a bug")

        task = RealClock().spawn(work(), name="work")
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="a bug"):
            await cancel_and_wait([task])

    asyncio.run(story())


def test_an_errand_runs_once_at_a_time_and_again_when_there_is_more_work() -> None:
    """It runs once for any number of starts at a time; after its final stop it does not start."""
    waiting: list[int] = []
    done: list[list[int]] = []
    running = 0

    async def work() -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        done.append(list(waiting))
        waiting.clear()
        running -= 1

    async def story() -> None:
        task = OnDemandTask(RealClock(), "task", work)
        for number in (1, 2):
            waiting.append(number)
            task.ensure_running()
        for _ in range(4):
            await asyncio.sleep(0)
        waiting.append(3)
        task.ensure_running()
        for _ in range(4):
            await asyncio.sleep(0)
        assert done == [[1, 2], [3]]
        await task.stop()
        task.ensure_running()
        for _ in range(4):
            await asyncio.sleep(0)
        assert done == [[1, 2], [3]]

    asyncio.run(story())
