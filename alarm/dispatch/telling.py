"""Tell what is waiting to be told, with bounded retries and doubling pauses.

In: the notices of the operations store. Out: their outcomes there. Never: an alarm kept waiting
by a notifier: this runs beside the verdicts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from alarm.dispatch.notifiers import Notifier, NotTold
from alarm.dispatch.operations import Notice, Operations
from alarm.settings import DispatcherSettings

log = logging.getLogger(__name__)

BATCH = 100
IDLE_S = 1.0  # how often due retries are looked for


def pause_ms(settings: DispatcherSettings, attempts: int) -> int:
    """The pause after so many failed attempts."""
    return int(settings.notify_pause_s * 1000 * 2 ** (attempts - 1))


class Telling:
    """One task for all notifiers; `wake` says that there is something new."""

    def __init__(
        self, operations: Operations, notifiers: Sequence[Notifier], settings: DispatcherSettings
    ) -> None:
        self._operations = operations
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        self._settings = settings
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There may be something to tell."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due = self._operations.due(_now_ms(), BATCH)
            await asyncio.gather(*(self._tell(notice) for notice in due))
            if not due:
                self._woken.clear()
                await _first_of(self._woken, IDLE_S)

    async def close(self) -> None:
        """Release the notifiers."""
        for notifier in self._notifiers.values():
            await notifier.close()

    async def _tell(self, notice: Notice) -> None:
        notifier = self._notifiers.get(notice.notifier)
        if notifier is None:
            self._operations.told([notice], "no longer configured")
            return
        try:
            await notifier.tell(notice.subject, notice.body)
        except NotTold as error:
            self._failed(notice, str(error))
        except Exception as error:  # of a library, or the other end's answer: this notice's fault
            log.exception("%s stumbled over %s", notice.notifier, notice.subject)
            self._failed(notice, repr(error))
        else:
            self._operations.told([notice], "told")

    def _failed(self, notice: Notice, why: str) -> None:
        attempts = notice.attempts + 1
        if attempts >= self._settings.notify_attempts:
            log.error("%s gave up telling %s: %s", notice.notifier, notice.subject, why)
            self._operations.told([notice], f"given up: {why}"[:200])
        else:
            self._operations.later(notice, _now_ms() + pause_ms(self._settings, attempts))


async def _first_of(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
