"""One world: machines with real brokers on simulated ports, clients, a trace, all from one seed.

In: a seed and how many brokers. Out: a history for the rules, complaints of clients and observers,
a trace whose digest is the same for the same seed. Never: real time, real files, real sockets.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import random
import sys
import zlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tests.checker.history import Deleted, HistoryEvent, to_line
from tests.simulation.client import ClientSurroundings
from tests.simulation.clock import SimClock
from tests.simulation.disk import Killed
from tests.simulation.loop import OWNER, START_S, ProcessLife, VirtualLoop
from tests.simulation.network import ProcessNetwork, SimNetwork

log = logging.getLogger("simulation")


class SimWorld:
    """All machines and clients of one event loop."""

    def __init__(self, seed: int | str, *, show: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._on_exception)
        self.dice = self.dice_of("world")
        self.network = SimNetwork(self.loop, self.dice_of("network"), self._on_piece)
        self.history: list[HistoryEvent] = []
        self.complaints: list[str] = []
        self.show = show
        self._digest = hashlib.sha256()
        self._ops = 0
        self._clients = 0
        self._ended = False
        self._traces = TraceHandler(self.complain)
        logging.getLogger("broker").addHandler(self._traces)

    # --- shared services --------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Virtual seconds since the beginning."""
        return self.loop.time() - START_S

    def dice_of(self, name: str) -> random.Random:
        """The random generator of one part of the world; a text is the same seed on every
        machine."""
        return random.Random(f"{self.seed}/{name}")

    def trace(self, text: str) -> None:
        """Adds a line to the trace."""
        line = f"{self.now_s:10.4f} {text}"
        self._digest.update(line.encode())
        if self.show is not None:
            self.show(line)

    def _on_piece(self, way: str, piece: bytes) -> None:
        text = f"{self.now_s:.6f}{way}{len(piece)}:{zlib.crc32(piece)}"
        self._digest.update(text.encode())

    @property
    def digest(self) -> str:
        """A hash of the trace, 16 digits."""
        return self._digest.hexdigest()[:16]

    def record(self, event: HistoryEvent) -> None:
        """Records an event of a client."""
        self.history.append(event)
        line = to_line(event)
        self._digest.update(line)
        if self.show is not None:
            self.show(f"{self.now_s:10.4f} {line.decode().rstrip()}")

    def deleted_before(self, topic: str, partition: int) -> int:
        """The offset below which records were deleted on purpose, or may be; 0 if none were."""
        place = topic, partition
        deletions = (event for event in self.history if isinstance(event, Deleted))
        return max((e.before for e in deletions if (e.topic, e.partition) == place), default=0)

    def complain(self, text: str) -> None:
        """Records a violation."""
        self.trace(f"COMPLAINT {text}")
        self.complaints.append(f"at {self.now_s:.3f} s: {text}")

    def next_op(self) -> int:
        """Returns a new number for an operation."""
        self._ops += 1
        return self._ops

    def _on_exception(self, _: object, context: dict[str, Any]) -> None:
        """Handles a failed task, timer or callback: the seed fails and its process ends as a real
        one."""
        error = context.get("exception")
        if self._ended or isinstance(error, Killed):
            return
        life = _life_of(context)
        if life is not None and life.dead:
            return
        text = f"{life or 'nobody'}: {context.get('message')}: {error!r}"
        self.complain(text)
        log.error("%s", text, exc_info=error)
        if life is not None and error is not None:
            life.on_failure()

    def on_broker_failure(self, process: Any, error: BaseException) -> None:
        """Records that a broker could not start or stop, or died of a bug."""
        self.complain(f"{process.life} ended with {error!r}")
        log.error("%s", process.life, exc_info=error)

    # --- clients ---------------------------------------------------------------------------------

    def client_surroundings(
        self, name: str, bootstrap: list[tuple[str, int]]
    ) -> ClientSurroundings:
        """Everything that a client on its own host needs."""
        self._clients += 1
        host = f"10.0.1.{self._clients}"
        life = ProcessLife(name)
        clock = SimClock(self.loop, life, self.dice_of(f"{name}/clock"))
        return ClientSurroundings(
            clock=clock,
            network=ProcessNetwork(self.network, life, host),
            dice=self.dice_of(name),
            bootstrap=bootstrap,
            record=self.record,
            next_op=self.next_op,
            trace=self.trace,
            complain=self.complain,
            deleted_before=self.deleted_before,
        )

    # --- running ---------------------------------------------------------------------------------

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Runs a story to its end."""
        return self.loop.run_until_complete(story)

    async def until(self, test: Callable[[], bool], within_s: float, every_s: float = 0.05) -> bool:
        """Waits until `test` holds; returns whether it did so in time."""
        ends = self.loop.time() + within_s
        while not test():
            if self.loop.time() >= ends:
                return False
            await asyncio.sleep(every_s)
        return True

    async def until_none(
        self, problems: Callable[[], list[str]], within_s: float, every_s: float = 0.25
    ) -> list[str]:
        """Waits until there are no problems; returns those that are left."""
        await self.until(lambda: not problems(), within_s, every_s)
        return problems()

    def end(self) -> None:
        """Ends all steps and silently closes the coroutines that still wait."""
        self._ended = True
        logging.getLogger("broker").removeHandler(self._traces)
        self.loop.bury()
        self.loop._ready.clear()
        self.loop._timers.clear()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        for task in self.loop.graveyard:
            with suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        self.loop.graveyard.clear()
        gc.collect()
        sys.unraisablehook = hook
        self.loop.close()


class TraceHandler(logging.Handler):
    """Reports tracebacks in a broker's log as complaints: code that continues after an unexpected
    error (a peer's bytes, a stored record) must not be reached in a world without such bytes."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        """Handles one log record."""
        if record.exc_info and record.exc_info[1] is not None:
            self._complain(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")


def _life_of(context: dict[str, Any]) -> ProcessLife | None:
    """The process in which the error occurred."""
    handle = context.get("handle")
    life = handle._context.get(OWNER) if handle is not None else context.get("life")
    return life if isinstance(life, ProcessLife) else None
