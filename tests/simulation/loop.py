"""An event loop whose time is a number: it jumps to the next timer when nothing is left to do.

In: callbacks and timers, as for any asyncio loop. Out: the same order of steps for the same
order of calls. Never: real time, sockets, threads or signals. Ties between timers go to the older
timer; nothing depends on hashes or addresses.

A step belongs to the `ProcessLife` (one run of one process) in whose context it was created: steps
of a dead process are dropped, those of a paused one (SIGSTOP) are held until it resumes. A process
has one CPU: the time it spends (`ProcessLife.spend`) passes before its next step, also if more
arrives meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

MOST_STEPS_WITHOUT_TIME = 300_000
"""A process that does so much without waiting for anything hangs; on a real machine at 100 % CPU."""

STEP_S = 1e-6
"""What one step takes. Code that asks for the time until it has passed would else never end."""

START_S = 1000.0
"""Where the monotonic clock begins: not at 0, which code may take for `never`."""


class Stuck(Exception):
    """No callback or timer is left, or time does not advance."""


class ProcessLife:
    """One run of one process, from its start to its death, which is final."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.held: deque[asyncio.Handle] = deque()
        self.context = contextvars.copy_context()
        self.context.run(OWNER.set, self)
        self.deathbed: list[Callable[[], None]] = []
        self.on_failure: Callable[[], None] = lambda: None
        """What becomes of a process one of whose tasks or callbacks has failed."""
        self.busy_until = 0.0
        """Its processor works until then (loop time); in the past: it is idle."""
        self.backlog: deque[asyncio.Handle] = deque()
        """Steps that are due while it is busy, in the order in which they became due."""
        self.is_awaited = False

    def spend(self, now: float, seconds: float) -> None:
        """Adds the time of a request, or of a flush that it waits for, to the current step."""
        self.busy_until = max(now, self.busy_until) + seconds

    def __repr__(self) -> str:
        return self.name

    def die(self) -> None:
        """Ends the process: none of its steps runs afterwards; its listeners are notified once."""
        if self.dead:
            return
        self.dead = True
        self.held.clear()
        self.backlog.clear()
        for on_death in self.deathbed:
            on_death()
        self.deathbed.clear()


OWNER: contextvars.ContextVar[ProcessLife | None] = contextvars.ContextVar("life", default=None)


class VirtualLoop(asyncio.BaseEventLoop):
    """Invariant: `time()` never goes back, and only `_jump` and `_step` move it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = START_S
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = 0
        self._steps_now = 0
        self.steps = 0
        self._last: list[str] = []
        self.kernel = contextvars.Context()
        """What belongs to no process runs in it: kernels, wires, other people's servers."""
        self.graveyard: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio; in virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio; in virtual seconds."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._order += 1
        heapq.heappush(self._timers, (when, self._order, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is left in the heap and skipped there."""

    def _process_events(self, event_list: object) -> None:
        """There is no I/O."""

    def _write_to_self(self) -> None:
        """The loop never sleeps in a selector."""

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """There is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Blocking code has no thread here: see `blocking`."""
        from tests.simulation.blocking import begin

        return begin(self, partial(func, *args))

    def _check_closed(self) -> None:
        """A generator that is collected after the end of its world may still want to call somebody:
        nobody is there, which is no error."""

    def bury(self) -> None:
        """A life has ended. Its tasks are kept to the end of the world: were they collected, their
        `finally` blocks would run at a moment that no seed decides."""
        for task in asyncio.all_tasks(self):
            self.keep_to_the_end(task)

    def keep_to_the_end(self, task: asyncio.Task[Any]) -> None:
        """Keeps a task that never runs again until the end of the world closes its coroutine."""
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.graveyard.append(task)

    def pause(self, life: ProcessLife) -> None:
        """SIGSTOP: its steps are held."""
        life.paused = True

    def resume(self, life: ProcessLife) -> None:
        """SIGCONT: what was held runs now, in the order in which it was due."""
        life.paused = False
        self._ready.extend(life.held)
        life.held.clear()

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:
                ready.append(handle)
        for _ in range(len(ready)):
            self._step(ready.popleft())
        if self._steps_now > MOST_STEPS_WITHOUT_TIME:
            raise Stuck(f"time stands still at {self._now - START_S:.3f} s: {self._last}")

    def _step(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        life = handle._context.get(OWNER)
        if life is not None and (life.dead or life.paused):
            if not life.dead:
                life.held.append(handle)
            return
        if life is not None and (life.backlog or life.busy_until > self._now):
            life.backlog.append(handle)
            self._await_idle(life)
            return
        self._run_step(handle)

    def _await_idle(self, life: ProcessLife) -> None:
        if not life.is_awaited:
            life.is_awaited = True
            when = max(life.busy_until, self._now)
            self.call_at(when, self._work_off, life, context=self.kernel)

    def _work_off(self, life: ProcessLife) -> None:
        """The processor is free: what became due goes on, until something spends time again."""
        life.is_awaited = False
        if life.paused:
            life.held.extendleft(reversed(life.backlog))
            life.backlog.clear()
        while life.backlog and life.busy_until <= self._now:
            handle = life.backlog.popleft()
            if not handle._cancelled:
                self._run_step(handle)
        if life.backlog:
            self._await_idle(life)

    def _run_step(self, handle: asyncio.Handle) -> None:
        self._steps_now += 1
        self.steps += 1
        self._now += STEP_S
        if self._steps_now > MOST_STEPS_WITHOUT_TIME - 5:
            self._last.append(repr(handle))
        handle._run()

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing is left to happen")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._steps_now = 0
