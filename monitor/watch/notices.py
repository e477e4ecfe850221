"""Delivers the watch's notices: a task per notifier, so that a slow one delays no other."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from bus import wall_clock
from monitor.watch.incident_file import IncidentFile, IncidentFileError, IncidentNotice
from monitor.watch.ports import IncidentNotifier

log = logging.getLogger(__name__)

BATCH = 100
IDLE_S = 1.0  # how often due retries are looked for
FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 60_000  # between two attempts; an operator's gateway comes back unannounced


def pause_after_ms(attempts: int) -> int:
    """The pause after so many failed attempts: doubling, up to a minute."""
    return int(min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** min(attempts - 1, 10)))


class NoticeDelivery:
    """One notifier. A notice is tried until it is delivered, or `give_up_ms` old."""

    def __init__(self, file: IncidentFile, notifier: IncidentNotifier, give_up_ms: int) -> None:
        self._file = file
        self._notifier = notifier
        self._give_up_ms = give_up_ms
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                due = self._file.due(self._notifier.name, wall_clock.now_ms(), BATCH)
                for notice in due:
                    await self._deliver(notice)
            except IncidentFileError as error:
                log.error("notices wait: %s", error)
                due = []
            if not due:
                self._woken.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), IDLE_S)

    async def _deliver(self, notice: IncidentNotice) -> None:
        try:
            await self._notifier.send(notice.subject, notice.body)
        except Exception as error:  # of a library, or the other end's answer
            self._failed(notice, str(error) or type(error).__name__)
        else:
            self._file.mark_done(notice, "sent")

    def _failed(self, notice: IncidentNotice, why: str) -> None:
        now_ms = wall_clock.now_ms()
        name = self._notifier.name
        if now_ms - notice.made_at_ms >= self._give_up_ms:
            log.error("%s gave up sending %s: %s", name, notice.subject, why)
            self._file.mark_done(notice, f"given up: {why}"[:200])
            return
        log.warning("%s could not send %s, it is tried again: %s", name, notice.subject, why)
        self._file.reschedule(notice, now_ms + pause_after_ms(notice.attempts + 1))
