"""The controller's queue of events: every change of the metadata goes through it.

Events are processed one at a time in the order in which they came (C-GEN-05). What an event does,
and what happens if it fails, is up to `process` and `elect`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk.controller_context import ControllerContext
from bus.errors import ErrorCode

MAX_QUEUED = 20_000
"""Events that wait while ZooKeeper is slow or unavailable. Each watched node and each broker has a
few at most; the rest are writes, which are refused from here on and retried by their senders."""

Event = Callable[[ControllerContext], Awaitable[None]]
Failed = Callable[[ErrorCode], None]


class ControllerEventQueue:
    """Invariant: an event is processed under the context in force when its turn comes, or refused;
    an election precedes all events."""

    def __init__(
        self,
        clock: Clock,
        context: Callable[[], ControllerContext | None],
        elect: Callable[[], Awaitable[None]],
        process: Callable[[Event, ControllerContext], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._context = context
        self._elect = elect
        self._process = process
        self._events: deque[tuple[Event, Failed | None]] = deque()
        self._electing = False
        self._wake = asyncio.Event()
        self._task: TaskHandle | None = None

    def start(self) -> None:
        """Starts processing."""
        self._task = self._clock.spawn(self._run(), name="zookeeper-controller")

    def stop(self) -> None:
        """Stops processing."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def is_full(self) -> bool:
        """Whether writes are refused."""
        return len(self._events) >= MAX_QUEUED

    def put(self, event: Event, failed: Failed | None = None) -> None:
        """Adds an event; `failed` gets NOT_CONTROLLER if this broker stops being controller before
        its turn."""
        self._events.append((event, failed))
        self._wake.set()

    def request_election(self) -> None:
        """Holds an election as soon as possible."""
        if not self._electing:
            self._electing = True
            self._wake.set()

    def refuse_all(self) -> None:
        """No longer controller: waiting events fail with NOT_CONTROLLER."""
        events, self._events = self._events, deque()
        for _, failed in events:
            if failed is not None:
                failed(ErrorCode.NOT_CONTROLLER)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._electing or self._events:
                context = self._context()
                if self._electing:
                    self._electing = False
                    await self._elect()
                elif context is None:
                    self.refuse_all()
                else:
                    event, _ = self._events.popleft()
                    await self._process(event, context)
