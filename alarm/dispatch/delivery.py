"""Delivers notifications, with bounded retries and doubling pauses.

Runs beside the verdicts, so that a slow notifier delays no alarm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from alarm.dispatch.notifiers import NotificationError, Notifier
from alarm.dispatch.operations import Notification, OperationsStore
from alarm.settings import DispatcherSettings
from bus import wall_clock
from ingest.store.port import StoreError

log = logging.getLogger(__name__)

BATCH = 100
IDLE_S = 1.0  # how often due retries are looked for


def pause_ms(settings: DispatcherSettings, attempts: int) -> int:
    """The pause after so many failed attempts."""
    return int(settings.notify_pause_s * 1000 * 2 ** (attempts - 1))


class NotificationDelivery:
    """One task for all notifiers; `wake` says that there is something new."""

    def __init__(
        self,
        operations: OperationsStore,
        notifiers: Sequence[Notifier],
        settings: DispatcherSettings,
    ) -> None:
        self._operations = operations
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        self._settings = settings
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due: list[Notification] = []
            try:
                due = self._operations.due(wall_clock.now_ms(), BATCH)
                await asyncio.gather(*(self._deliver(notice) for notice in due))
            except StoreError as error:
                log.error("notices wait: %s", error)
                due = []
            if not due:
                self._woken.clear()
                await _wait_for(self._woken, IDLE_S)

    async def _deliver(self, notification: Notification) -> None:
        notifier = self._notifiers.get(notification.notifier)
        if notifier is None:
            self._operations.mark_done([notification], "no longer configured")
            return
        try:
            await notifier.send(notification.subject, notification.body)
        except NotificationError as error:
            self._failed(notification, str(error))
        except Exception as error:  # of a library, or the other end's answer: this notice's fault
            log.exception("%s stumbled over %s", notification.notifier, notification.subject)
            self._failed(notification, repr(error))
        else:
            self._operations.mark_done([notification], "told")

    def _failed(self, notification: Notification, why: str) -> None:
        attempts = notification.attempts + 1
        if attempts >= self._settings.notify_attempts:
            log.error("%s gave up sending %s: %s", notification.notifier, notification.subject, why)
            self._operations.mark_done([notification], f"given up: {why}"[:200])
        else:
            self._operations.reschedule(
                notification, wall_clock.now_ms() + pause_ms(self._settings, attempts)
            )


async def _wait_for(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
