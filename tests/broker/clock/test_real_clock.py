"""The production clock does what the port promises."""

from __future__ import annotations

import asyncio
import time

from broker.clock.real import RealClock


def test_the_time_is_the_systems() -> None:
    clock = RealClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 5000
    assert clock.monotonic() <= clock.monotonic()


def test_uuids_are_version_4_and_differ() -> None:
    clock = RealClock()
    made = {clock.new_uuid() for _ in range(50)}
    assert len(made) == 50
    assert all(len(u) == 16 and u[6] >> 4 == 4 and u[8] >> 6 == 2 for u in made)


def test_a_seed_repeats_the_dice() -> None:
    one, two = RealClock(seed=9), RealClock(seed=9)
    assert [one.random.random() for _ in range(5)] == [two.random.random() for _ in range(5)]
    assert one.new_uuid() == two.new_uuid()


def test_tasks_timers_and_sleep_run_on_the_loop() -> None:
    async def story() -> None:
        clock = RealClock()
        called = asyncio.Event()
        handle = clock.call_later(0.001, called.set)
        cancelled = clock.call_later(0.001, lambda: order.append("never"))
        cancelled.cancel()
        order: list[str] = []

        async def work() -> str:
            await clock.sleep(0)
            order.append("task")
            return "done"

        task = clock.spawn(work(), name="work")
        assert await task == "done"
        await asyncio.wait_for(called.wait(), 5)
        handle.cancel()
        assert (order, task.done()) == (["task"], True)

    asyncio.run(story())
