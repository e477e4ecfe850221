"""The child process of a broker in a world: the product's own pass on the machine's disk, in slices.

In: requests of one broker process. Out: their reports, in virtual time. A pass is a greenlet that
waits between batches; its process is another one than the broker's, so that each may die alone. A
child outlives a killed broker for a moment, as a real one does, and writes on meanwhile.
Never: what a pass does (`run_order` is the product's).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable

from broker.cleaner_process.messages import RequestEnd
from broker.cleaner_process.port import FailureKind, RequestFailed
from broker.cleaner_process.real_child import RequestCancelled, end_of
from broker.log.cleaner.order_runner import run_order
from bus.errors import CheckFailed
from tests.simulation import blocking
from tests.simulation.disk import Killed, ProcessDisk, SimDisk
from tests.simulation.loop import ProcessLife, VirtualLoop

SLICE_S = (0.0, 0.03)
"""A pass over a few kilobytes takes some tenths of a second, so that much happens meanwhile."""
OUTLIVES_S = (0.0, 0.3)
DEATHS = 0.005
"""Share of the slices after which the child is killed."""


class SimRequest:
    """One request. Invariant: the last item of its queue is a `RequestEnd`."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[bytes | RequestEnd] = asyncio.Queue()
        self.is_cancelled = False


class SimCleanerProcess:
    """Implements `broker.cleaner_process.port.CleanerProcess` for one broker process."""

    def __init__(
        self,
        loop: VirtualLoop,
        broker: ProcessLife,
        machine: SimDisk,
        dice: random.Random,
        fault_of: Callable[[], Callable[[str, str], None]],
    ) -> None:
        """`fault_of`: the faults of the machine's disk, now."""
        self._loop, self._machine, self._dice, self._fault_of = loop, machine, dice, fault_of
        self._name, self._starts = broker.name, 0
        self._life: ProcessLife | None = None
        self._requests: list[SimRequest] = []
        self._is_stopped = False
        broker.deathbed.append(self._broker_died)

    async def run(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """See the port."""
        if self._is_stopped:
            raise RequestFailed(FailureKind.DIED, "the broker stops")
        life = self._running()
        asked = SimRequest()
        self._requests.append(asked)
        disk = ProcessDisk(self._machine, life, self._dice)
        disk.fault = self._fault_of()
        self._loop.create_task(self._serve(request, asked, disk), context=life.context)
        ended = None
        try:
            while ended is None:
                answer = await asked.answers.get()
                if isinstance(answer, RequestEnd):
                    ended = answer
                else:
                    yield answer
        finally:
            asked.is_cancelled = True
            while ended is None:
                answer = await asked.answers.get()
                ended = answer if isinstance(answer, RequestEnd) else None
            self._requests.remove(asked)
        if ended.kind is not None:
            raise RequestFailed(ended.kind, ended.text)

    def limit_rate(self, bytes_per_second: float) -> None:
        """A slice takes what it takes."""

    async def stop(self) -> None:
        """See the port."""
        self._is_stopped = True
        self.kill()

    def kill(self) -> None:
        """SIGKILL, or its broker's pipe closes."""
        life, self._life = self._life, None
        if life is not None:
            life.die()
            for one in self._requests:
                one.answers.put_nowait(RequestEnd(0, FailureKind.DIED, "it was killed"))

    def lose_power(self) -> None:
        """With the machine."""
        if self._life is not None:
            self._life.die()

    # --- the child -------------------------------------------------------------------------------

    def _running(self) -> ProcessLife:
        if self._life is None:
            self._starts += 1
            self._life = ProcessLife(f"{self._name}/cleaner{self._starts}")
            self._life.deathbed.append(self._loop.bury)
        return self._life

    def _broker_died(self) -> None:
        life = self._life
        if life is not None:
            low, high = OUTLIVES_S
            delay_s = low + (high - low) * self._dice.random()
            self._loop.call_later(delay_s, life.die, context=self._loop.kernel)

    async def _serve(self, request: bytes, asked: SimRequest, disk: ProcessDisk) -> None:
        try:
            await blocking.begin(self._loop, lambda: self._work(request, asked, disk))
        except Killed:
            return

    def _work(self, request: bytes, asked: SimRequest, disk: ProcessDisk) -> None:
        def pause(count: int) -> None:
            low, high = SLICE_S
            blocking.wait_for(asyncio.sleep(low + (high - low) * self._dice.random()))
            if asked.is_cancelled:
                raise RequestCancelled
            if self._dice.random() < DEATHS:
                self.kill()
                raise Killed(f"{self._name}'s cleaner is killed")

        try:
            for body in run_order(disk, request, pause):
                asked.answers.put_nowait(body)
            ended = RequestEnd(0)
        except (Exception, CheckFailed) as error:
            ended = end_of(0, error)
        asked.answers.put_nowait(ended)
