"""Delivers notices: a task per notifier, so that a slow one delays no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from bus import wall_clock
from bus.notify import notice_metrics
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from bus.notify.notice_metrics import ACKNOWLEDGED, FAILED, GIVEN_UP, NoticeMetrics
from bus.notify.notice_table import SENT, Notice
from bus.notify.notifiers import Notifier

log = logging.getLogger(__name__)

BATCH = 100
IDLE_S = 1.0  # how often due retries are looked for
FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 60_000  # between two attempts; an operator's gateway comes back unannounced


class NoticeQueue(Protocol):
    """What is waiting; `NoticeTable` is one."""

    def due(self, notifier: str, now_ms: int, limit: int) -> list[Notice]:
        """Notices of one notifier that are due, oldest first."""

    def mark_done(self, notice: Notice, outcome: str) -> None:
        """It is not tried again."""

    def reschedule(self, notice: Notice, next_at_ms: int) -> None:
        """Try again at that time."""


def pause_after_ms(attempts: int) -> int:
    """The pause after so many failed attempts: doubling, up to a minute."""
    return int(min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** min(attempts - 1, 10)))


class NoticeDelivery:
    """One notifier. A notice is tried until it is delivered, or `give_up_ms` old."""

    def __init__(
        self,
        queue: NoticeQueue,
        notifier: Notifier,
        give_up_ms: int,
        unavailable: type[Exception],
        acknowledged: Callable[[str], str] | None = None,
        *,
        metrics: NoticeMetrics,
    ) -> None:
        """`unavailable`: what `queue` raises while its file cannot be read or written.
        `acknowledged`, for one that is told only what nobody has taken in hand: who has."""
        self._queue = queue
        self._notifier = notifier
        self._give_up_ms = give_up_ms
        self._unavailable = unavailable
        self._acknowledged = acknowledged
        self._metrics = metrics
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                due = self._queue.due(self._notifier.name, wall_clock.now_ms(), BATCH)
                for notice in due:
                    await self._deliver(notice)
            except self._unavailable as error:
                log.error("notices wait: %s", error)
                due = []
            if not due:
                self._woken.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), IDLE_S)

    async def _deliver(self, notice: Notice) -> None:
        try:
            by_whom = self._acknowledged_by(notice)
            if by_whom:
                self._queue.mark_done(notice, f"acknowledged by {by_whom}")
                self._metrics.count(self._notifier.name, ACKNOWLEDGED)
                return
            await self._notifier.send(notice.subject, notice.body)
        except self._unavailable:
            raise
        except Exception as error:  # of a library, or the other end's answer
            self._failed(notice, str(error) or type(error).__name__)
        else:
            self._queue.mark_done(notice, SENT)
            self._metrics.count(self._notifier.name, notice_metrics.SENT)

    def _acknowledged_by(self, notice: Notice) -> str:
        """Empty also where it cannot be read: rather told once too often."""
        try:
            return self._acknowledged(notice.subject) if self._acknowledged else ""
        except AcknowledgementsUnavailable as error:
            log.error("%s", error)
            return ""

    def _failed(self, notice: Notice, why: str) -> None:
        now_ms = wall_clock.now_ms()
        name = self._notifier.name
        if now_ms - notice.made_at_ms >= self._give_up_ms:
            log.error("%s gave up sending %s: %s", name, notice.subject[:200], why)
            self._queue.mark_done(notice, f"given up: {why}"[:200])
            self._metrics.count(name, GIVEN_UP)
            return
        log.warning("%s could not send %s, tries again: %s", name, notice.subject[:200], why)
        self._metrics.count(name, FAILED)
        self._queue.reschedule(notice, now_ms + pause_after_ms(notice.attempts + 1))
