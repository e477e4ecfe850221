"""The leader's flushes: beside its appends, never in front of them.

In: the news that something was appended. Out: one flush at a time on Raft's worker, and after each
the machine's `on_flushed`. Never: a record counted as stored that came after its flush had begun,
nor a flush of a follower's log (the carrier's, before it says what it has).
"""

from __future__ import annotations

import logging

from broker.clock.port import TaskHandle
from broker.controller.kraft.carrier import Carrier, DirectoryFailed
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.driver import Driver
from broker.controller.kraft.parked import ParkedFetches
from broker.controller.kraft.states import Role
from broker.disk.port import DiskError
from broker.log.errors import LogError

log = logging.getLogger("broker.controller")

NO_ROOM_PAUSE_S = 1.0
"""Whoever is alone can only wait for room, and looks so often."""


class Flushing:
    """Invariant: at most one flush is under way, and `_task` is it."""

    def __init__(
        self, context: QuorumContext, carrier: Carrier, driver: Driver, parked: ParkedFetches
    ) -> None:
        self._context = context
        self._carrier = carrier
        self._driver = driver
        self._parked = parked
        self._task: TaskHandle | None = None
        self._is_due = False

    def soon(self) -> None:
        """Once for all decisions of this turn, after the others have been offered the records:
        their flush and ours then run side by side. One under way sees by itself that there is
        more."""
        if not self._is_due and self._is_wanted:
            self._is_due = True
            self._context.clock.call_later(0, self._begin)
            self._parked.wake()

    @property
    def _is_wanted(self) -> bool:
        context = self._context
        if self._driver.is_silent or context.machine.role is not Role.LEADER:
            return False
        return context.log.flushed_offset < context.log.end.offset

    def _begin(self) -> None:
        self._is_due = False
        if self._is_wanted:
            self._parked.wake()
            if self._task is None:
                self._task = self._context.clock.spawn(self._run(), name="metadata flush")

    async def _run(self) -> None:
        machine, driver = self._context.machine, self._driver
        while self._is_wanted:
            try:
                await self._carrier.force()
            except DirectoryFailed as error:
                driver.fail(error)
                return
            except (DiskError, LogError) as error:
                await self._no_room(error)
                continue
            if driver.is_stopped:
                return
            driver.event(lambda _: machine.on_flushed())
        self._task = None

    async def _no_room(self, error: Exception) -> None:
        """A controller that cannot store decides nothing; others may."""
        context = self._context
        if not context.is_alone:
            log.error("the metadata log cannot be flushed, this node resigns: %s", error)
            self._driver.event(context.machine.resign)
        else:
            log.error("the metadata log cannot be flushed, this node waits: %s", error)
        await context.clock.sleep(NO_ROOM_PAUSE_S)

    def stop(self) -> None:
        """Nothing is told any more."""
        if self._task is not None:
            self._task.cancel()
