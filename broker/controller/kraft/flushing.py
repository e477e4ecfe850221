"""The leader's flushes: beside its appends, never in front of them.

In: the news that something was appended. Out: one flush at a time on Raft's worker, and after each
the machine's `on_flushed`. Never: a record counted as stored that came after its flush had begun,
nor a flush of a follower's log (the carrier's, before it says what it has).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.clock.port import TaskHandle
from broker.controller.kraft.carrier import DirectoryFailed
from broker.controller.kraft.states import Role
from broker.disk.port import DiskError
from broker.log.errors import LogError

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode


log = logging.getLogger("broker.controller")

NO_ROOM_PAUSE_S = 1.0
"""Whoever is alone can only wait for room, and looks so often."""


class Flushing:
    """Invariant: at most one flush is under way, and `_task` is it."""

    def __init__(self, node: RaftNode) -> None:
        self._node = node
        self._task: TaskHandle | None = None
        self._is_due = False

    def soon(self) -> None:
        """Once for all decisions of this turn, after the others have been offered the records:
        their flush and ours then run side by side. One under way sees by itself that there is
        more."""
        if not self._is_due and self._is_wanted:
            self._is_due = True
            self._node.clock.call_later(0, self._begin)
            self._node.parked.wake()

    @property
    def _is_wanted(self) -> bool:
        node = self._node
        if node.driver.is_silent or node.machine.role is not Role.LEADER:
            return False
        return node.log.flushed_offset < node.log.end.offset

    def _begin(self) -> None:
        self._is_due = False
        if self._is_wanted:
            self._node.parked.wake()
            if self._task is None:
                self._task = self._node.clock.spawn(self._run(), name="metadata flush")

    async def _run(self) -> None:
        node = self._node
        while self._is_wanted:
            try:
                await node.carrier.force()
            except DirectoryFailed as error:
                node.directory_failed(error)
                return
            except (DiskError, LogError) as error:
                await self._no_room(error)
                continue
            if node.driver.is_stopped:
                return
            node.driver.event(lambda _: node.machine.on_flushed())
        self._task = None

    async def _no_room(self, error: Exception) -> None:
        """A controller that cannot store decides nothing; others may."""
        node = self._node
        if not node.is_alone:
            log.error("the metadata log cannot be flushed, this node resigns: %s", error)
            node.driver.event(node.machine.resign)
        else:
            log.error("the metadata log cannot be flushed, this node waits: %s", error)
        await node.clock.sleep(NO_ROOM_PAUSE_S)

    def stop(self) -> None:
        """Nothing is told any more."""
        if self._task is not None:
            self._task.cancel()
