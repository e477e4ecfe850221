"""The queue of events: their order, and their refusal when the controller's epoch ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from broker.clock.real import RealClock
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_queue import MAX_QUEUED, ControllerEventQueue, Event
from bus.errors import ErrorCode

TERM = cast(ControllerContext, object())


class RecordingQueue:
    """A queue whose events record that they ran."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refused: list[ErrorCode] = []
        self.term: ControllerContext | None = TERM
        self.line = ControllerEventQueue(RealClock(seed=1), lambda: self.term, self._elect, self._carry_out)

    async def _elect(self) -> None:
        await asyncio.sleep(0)
        self.done.append("election")

    async def _carry_out(self, event: Event, term: ControllerContext) -> None:
        await event(term)

    def event(self, name: str) -> Event:
        async def work(term: ControllerContext) -> None:
            await asyncio.sleep(0)
            self.done.append(name)

        return work


def run(story: Callable[[RecordingQueue], Awaitable[Any]]) -> RecordingQueue:
    async def whole() -> RecordingQueue:
        queue = RecordingQueue()
        queue.line.start()
        await story(queue)
        for _ in range(20):
            await asyncio.sleep(0)
        queue.line.stop()
        return queue

    return asyncio.run(whole())


def test_events_are_carried_out_one_by_one_and_an_election_goes_first() -> None:
    """Events run in the order in which they were queued."""

    async def story(queue: RecordingQueue) -> None:
        queue.line.put(queue.event("a"))
        queue.line.put(queue.event("b"))
        queue.line.request_election()
        queue.line.request_election()

    assert run(story).done == ["election", "a", "b"]


def test_without_a_term_whoever_waits_is_refused() -> None:
    """Events that would run after the end of the epoch are refused, too."""

    async def story(queue: RecordingQueue) -> None:
        async def end(term: ControllerContext) -> None:
            queue.term = None

        queue.line.put(end)
        queue.line.put(queue.event("too late"), queue.refused.append)

    recorded = run(story)
    assert recorded.done == []
    assert recorded.refused == [ErrorCode.NOT_CONTROLLER]


def test_the_line_has_an_end() -> None:
    """A full queue refuses writes."""

    async def story(queue: RecordingQueue) -> None:
        queue.line.stop()
        for _ in range(MAX_QUEUED - 1):
            queue.line.put(queue.event("x"))
        assert not queue.line.is_full
        queue.line.put(queue.event("x"))
        assert queue.line.is_full

    run(story)
