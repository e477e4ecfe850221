"""Schedules the flushes of a leader's log, in parallel with its appends and their replication.

One flush at a time runs on Raft's disk worker; after each the Raft core's `on_flushed` is called. A
record counts as stored only if it was in the log when its flush began. A follower's log is flushed
by `effects`, before it reports what it has.
"""

from __future__ import annotations

import logging

from broker.clock.port import TaskHandle
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.effects import EffectExecutor, MetadataDirectoryFailed
from broker.controller.kraft.event_loop import RaftEventLoop
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.transport.fetch_purgatory import FetchPurgatory
from broker.disk.port import DiskError
from broker.log.errors import LogError

log = logging.getLogger("broker.controller")

DISK_FULL_PAUSE_S = 1.0
"""How often the only voter checks whether there is room again."""


class FlushScheduler:
    """Invariant: at most one flush is running, and `_task` is it."""

    def __init__(
        self,
        context: QuorumContext,
        executor: EffectExecutor,
        event_loop: RaftEventLoop,
        fetches: FetchPurgatory,
    ) -> None:
        self._context = context
        self._executor = executor
        self._event_loop = event_loop
        self._fetches = fetches
        self._task: TaskHandle | None = None
        self._is_due = False

    def schedule(self) -> None:
        """Schedules one flush for all decisions of this loop iteration, after offering the records
        to the followers, so that their flushes and this one run in parallel. A running flush
        notices by itself that there is more."""
        if not self._is_due and self._is_needed:
            self._is_due = True
            self._context.clock.call_later(0, self._begin)
            self._fetches.check_and_complete()

    @property
    def _is_needed(self) -> bool:
        context = self._context
        if self._event_loop.is_silent or context.raft.role is not RaftRole.LEADER:
            return False
        return context.log.flushed_offset < context.log.end.offset

    def _begin(self) -> None:
        self._is_due = False
        if self._is_needed:
            self._fetches.check_and_complete()
            if self._task is None:
                self._task = self._context.clock.spawn(self._run(), name="metadata flush")

    async def _run(self) -> None:
        raft, event_loop = self._context.raft, self._event_loop
        while self._is_needed:
            try:
                await self._executor.force()
            except MetadataDirectoryFailed as error:
                event_loop.fail(error)
                return
            except (DiskError, LogError) as error:
                await self._on_disk_full(error)
                continue
            if event_loop.is_stopped:
                return
            event_loop.enqueue(lambda _: raft.on_flushed())
        self._task = None

    async def _on_disk_full(self, error: Exception) -> None:
        """A controller that cannot store makes no decisions; other controllers may."""
        context = self._context
        if not context.is_only_voter:
            log.error("the metadata log cannot be flushed, this node resigns: %s", error)
            self._event_loop.enqueue(context.raft.resign)
        else:
            log.error("the metadata log cannot be flushed, this node waits: %s", error)
        await context.clock.sleep(DISK_FULL_PAUSE_S)

    def stop(self) -> None:
        """Stops flushing."""
        if self._task is not None:
            self._task.cancel()
