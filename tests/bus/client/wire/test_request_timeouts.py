"""Waits that end in time, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.clock.port import Clock
from bus.client.wire.request_timeouts import RequestTimeouts


class ManualTimer:
    """One call that a clock owes; `moment` in its seconds."""

    def __init__(self, moment: float, callback: Callable[[], None]) -> None:
        self.moment, self.callback, self.cancelled = moment, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class HandClock:
    """A clock that tests advance; it records every timer that was ever set."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[ManualTimer]()

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ManualTimer:
        self.timers.append(ManualTimer(self.now + delay_s, callback))
        return self.timers[-1]

    @property
    def standing(self) -> list[ManualTimer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def move_to(self, moment: float) -> None:
        self.now = moment
        for timer in self.standing:
            if timer.moment <= moment:
                timer.cancel()
                timer.callback()


def deadlines(clock: HandClock) -> RequestTimeouts:
    return RequestTimeouts(cast(Clock, clock), lambda: TimeoutError("late"))


async def begun(waits: RequestTimeouts, moment: float) -> tuple[asyncio.Future[Any], asyncio.Task[Any]]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(waits.wait(moment, future))
    await asyncio.sleep(0)
    return future, task


def test_waits_that_follow_one_another_share_a_timer() -> None:
    """A second wait with a later end sets no timer; the first timer is moved on when it fires."""

    async def run() -> None:
        clock = HandClock()
        waits = deadlines(clock)
        for moment in (30.0, 31.0, 32.0):
            future, task = await begun(waits, moment)
            future.set_result(moment)
            assert await task == moment
        assert len(clock.timers) == 1
        _, task = await begun(waits, 40.0)
        clock.move_to(30.0)
        assert [timer.moment for timer in clock.standing] == [40.0]
        assert not task.done()
        clock.move_to(40.0)
        with pytest.raises(TimeoutError):
            await task

    asyncio.run(run())


def test_an_earlier_end_is_not_missed() -> None:
    """A wait that ends before the one the timer was set for ends in its own time."""

    async def run() -> None:
        clock = HandClock()
        waits = deadlines(clock)
        _, late = await begun(waits, 30.0)
        _, soon = await begun(waits, 5.0)
        clock.move_to(5.0)
        with pytest.raises(TimeoutError):
            await soon
        assert not late.done()
        clock.move_to(30.0)
        with pytest.raises(TimeoutError):
            await late
        assert not clock.standing

    asyncio.run(run())


def test_a_closed_channel_leaves_no_timer_once_its_last_wait_is_over() -> None:
    """A wait under way still ends in time, and takes the timer with it."""

    async def run() -> None:
        clock = HandClock()
        waits = deadlines(clock)
        future, task = await begun(waits, 30.0)
        waits.close()
        assert len(clock.standing) == 1
        future.set_result(None)
        await task
        assert not clock.standing

    asyncio.run(run())
