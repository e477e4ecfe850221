"""The controller's one line of events: everything that changes the metadata goes through it.

In: events, the wish to be elected. Out: each carried out after the other, in the order in which
they came (C-GEN-05). Never: two at a time, nor what an event does; a fault of one ends neither the
line nor what comes behind it, that is `carry_out`'s and `elect`'s word.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk.term import Term
from bus.errors import ErrorCode

MAX_QUEUED = 20_000
"""Events that wait while ZooKeeper is slow or away. Each watched node and each broker has a few at
most; the rest are writes, which are refused from here on, and their senders come again."""

Event = Callable[[Term], Awaitable[None]]
Failed = Callable[[ErrorCode], None]


class EventLine:
    """Invariant: an event is carried out under the term that holds when its turn has come, or
    refused; an election goes before all events."""

    def __init__(
        self,
        clock: Clock,
        term: Callable[[], Term | None],
        elect: Callable[[], Awaitable[None]],
        carry_out: Callable[[Event, Term], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._term = term
        self._elect = elect
        self._carry_out = carry_out
        self._events: deque[tuple[Event, Failed | None]] = deque()
        self._electing = False
        self._wake = asyncio.Event()
        self._task: TaskHandle | None = None

    def start(self) -> None:
        """Begin to work off what comes."""
        self._task = self._clock.spawn(self._run(), name="zookeeper-controller")

    def stop(self) -> None:
        """Carry out no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def is_full(self) -> bool:
        """Whether writes are refused."""
        return len(self._events) >= MAX_QUEUED

    def put(self, event: Event, failed: Failed | None = None) -> None:
        """One more event; `failed` hears NOT_CONTROLLER if the term ends before its turn."""
        self._events.append((event, failed))
        self._wake.set()

    def stand(self) -> None:
        """An election as soon as may be."""
        if not self._electing:
            self._electing = True
            self._wake.set()

    def refuse_all(self) -> None:
        """The term is over: whoever waits hears NOT_CONTROLLER."""
        events, self._events = self._events, deque()
        for _, failed in events:
            if failed is not None:
                failed(ErrorCode.NOT_CONTROLLER)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._electing or self._events:
                term = self._term()
                if self._electing:
                    self._electing = False
                    await self._elect()
                elif term is None:
                    self.refuse_all()
                else:
                    event, _ = self._events.popleft()
                    await self._carry_out(event, term)
