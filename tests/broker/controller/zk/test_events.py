"""One line of events: their order, and what becomes of them when the term ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from broker.clock.real import RealClock
from broker.controller.zk.events import MAX_QUEUED, Event, EventLine
from broker.controller.zk.term import Term
from bus.errors import ErrorCode

TERM = cast(Term, object())


class Line:
    """A line whose events note themselves."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refused: list[ErrorCode] = []
        self.term: Term | None = TERM
        self.line = EventLine(RealClock(seed=1), lambda: self.term, self._elect, self._carry_out)

    async def _elect(self) -> None:
        await asyncio.sleep(0)
        self.done.append("election")

    async def _carry_out(self, event: Event, term: Term) -> None:
        await event(term)

    def event(self, name: str) -> Event:
        async def work(term: Term) -> None:
            await asyncio.sleep(0)
            self.done.append(name)

        return work


def run(story: Callable[[Line], Awaitable[Any]]) -> Line:
    async def whole() -> Line:
        line = Line()
        line.line.start()
        await story(line)
        for _ in range(20):
            await asyncio.sleep(0)
        line.line.stop()
        return line

    return asyncio.run(whole())


def test_events_are_carried_out_one_by_one_and_an_election_goes_first() -> None:
    """In the order in which they came."""

    async def story(line: Line) -> None:
        line.line.put(line.event("a"))
        line.line.put(line.event("b"))
        line.line.stand()
        line.line.stand()

    assert run(story).done == ["election", "a", "b"]


def test_without_a_term_whoever_waits_is_refused() -> None:
    """Also those whose turn comes after the term has ended."""

    async def story(line: Line) -> None:
        async def end(term: Term) -> None:
            line.term = None

        line.line.put(end)
        line.line.put(line.event("too late"), line.refused.append)

    told = run(story)
    assert told.done == []
    assert told.refused == [ErrorCode.NOT_CONTROLLER]


def test_the_line_has_an_end() -> None:
    """Writes are refused from there on."""

    async def story(line: Line) -> None:
        line.line.stop()
        for _ in range(MAX_QUEUED - 1):
            line.line.put(line.event("x"))
        assert not line.line.is_full
        line.line.put(line.event("x"))
        assert line.line.is_full

    run(story)
