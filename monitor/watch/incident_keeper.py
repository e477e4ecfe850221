"""Writes what the judge said; while its file refuses, notifiers and topic are told from memory.

A full disk is what an incident is about: it must not be what keeps it from people.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from bus.contracts.alarms import Incident
from bus.notify.memory_notices import MemoryNotices
from bus.notify.notice_plan import NoticePlan
from bus.runtime import wall_clock
from bus.runtime.file_thread import FileThread
from monitor.watch.incident_file import IncidentFile, IncidentFileError, Members
from monitor.watch.senders import SavedHabit

log = logging.getLogger(__name__)

FILE_S = 5.0  # a file that answers later is as good as none
RETRY_S = 1.0
MAX_UNSAVED = 10_000  # openings and ends that wait in memory


class IncidentKeeper:
    """A service: `run` until cancelled. Invariant: what was added is in the file, or in `unsaved`;
    of the latter `memory` has the notices, once the file has refused them."""

    def __init__(self, file: IncidentFile, plan: NoticePlan) -> None:
        self.unsaved: list[tuple[Incident, Members]] = []
        self.memory = MemoryNotices(plan)
        self.wake: Callable[[], None] = lambda: None  # the notifiers
        self._file = file
        self._thread = FileThread("incidents", FILE_S, IncidentFileError)
        self._added = asyncio.Event()

    def add(self, changes: Iterable[tuple[Incident, Members]]) -> None:
        """Openings and ends, to be written at once."""
        self.unsaved += changes
        if self.unsaved:
            self._added.set()

    async def run(self) -> None:
        """Write what is there, look again, until cancelled."""
        while True:
            self._added.clear()
            await self.write()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._added.wait(), RETRY_S)

    async def write(self) -> None:
        """Everything that the file does not have."""
        batch, results = list(self.unsaved), self.memory.results()
        if not batch and not results:
            return
        now_ms = wall_clock.now_ms()
        try:
            await self._thread.run(self._file.add, batch, now_ms, results)
        except IncidentFileError as error:
            log.error("incidents wait in memory: %s", error)
            for incident, _ in batch:
                self.memory.add(incident, msgspec.json.encode(incident), now_ms)
            del self.unsaved[:-MAX_UNSAVED]
        else:
            del self.unsaved[: len(batch)]
            self.memory.forget(results)
        self.wake()

    async def save(
        self, habits: list[SavedHabit], members: list[tuple[str, Members]],
        gone: list[tuple[str, str]],
    ) -> None:  # fmt: skip
        """What was learnt since, and who is `gone`."""
        try:
            await self._thread.run(self._file.save, habits, members, wall_clock.now_ms())
            await self._thread.run(self._file.forget_habits, gone)
        except IncidentFileError as error:
            log.error("habits are not saved: %s", error)

    async def close(self) -> None:
        """Write what waits, and let another watch in."""
        await self.write()
        with suppress(IncidentFileError):  # it hangs: the kernel lets go of it with the process
            await self._thread.run(self._file.close)
        self._thread.close()
