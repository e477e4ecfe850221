"""Delivers notices: a task per notifier, so that a slow one delays no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from bus.notify import notice_metrics
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from bus.notify.memory_notices import MemoryNotices
from bus.notify.notice_metrics import ACKNOWLEDGED, FAILED, GIVEN_UP, NoticeMetrics
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import SENT, Notice, NoticeResult, after_attempt
from bus.notify.notifiers import Notifier
from bus.runtime import wall_clock
from bus.runtime.file_thread import FileThread

log = logging.getLogger(__name__)

BATCH = 100
IDLE_S = 1.0  # how often due retries are looked for
FIRST_PAUSE_MS = 1_000
MAX_WAITING = 100_000  # of one notifier, some 50 MB; then the oldest are given up
FILE_S = 5.0  # a file that answers later is as good as none
LONGEST_PAUSE_MS = 60_000  # between two attempts; an operator's gateway comes back unannounced


class NoticeQueue(Protocol):
    """What is waiting; `NoticeTable` is one. Called from a thread."""

    def due(self, notifier: str, now_ms: int, limit: int) -> list[Notice]:
        """Notices of one notifier that are due, oldest first."""

    def record(self, result: NoticeResult) -> None:
        """What has become of an attempt."""

    def give_up_oldest(self, notifier: str, keep: int) -> int:
        """Of more than so many that wait; how many."""


def pause_after_ms(attempts: int) -> int:
    """The pause after so many failed attempts: doubling, up to a minute."""
    return int(min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** min(attempts - 1, 10)))


class NoticeDelivery:
    """One notifier. A notice is tried until it is delivered, or `give_up_ms` old (0: for ever).

    Invariant: `_unrecorded` has what the queue could not write; none of these is sent again for
    that.
    """

    def __init__(
        self,
        queue: NoticeQueue,
        notifier: Notifier,
        give_up_ms: int,
        unavailable: type[Exception],
        acknowledged: Callable[[str], str] | None = None,
        *,
        metrics: NoticeMetrics,
        memory: MemoryNotices | None = None,
    ) -> None:
        """`unavailable`: what `queue` raises while its file cannot be read or written; `memory` is
        what its file would not take. `acknowledged`, for one that is told only what nobody has
        taken in hand: who has."""
        self._queue = queue
        self._notifier = notifier
        self._give_up_ms = give_up_ms
        self._unavailable = unavailable
        self._acknowledged = acknowledged
        self._metrics = metrics
        self._memory = MemoryNotices(NoticePlan()) if memory is None else memory
        self._unrecorded: dict[str, NoticeResult] = {}
        self._woken = asyncio.Event()
        self._file = FileThread(f"notices {notifier.name}", FILE_S, unavailable)

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                due = await self._due(wall_clock.now_ms())
                for notice in due:
                    await self._deliver(notice)
                if not due or self._unrecorded:
                    self._woken.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), IDLE_S)
        finally:
            self._file.close()

    async def _due(self, now_ms: int) -> list[Notice]:
        """From memory first, whether the file can be read or not."""
        name = self._notifier.name
        again = [
            one.notice for one in self._unrecorded.values()
            if not one.outcome and one.next_at_ms <= now_ms
        ]  # fmt: skip
        found = [*again, *self._memory.due(name, now_ms, BATCH)]
        try:
            for subject, result in list(self._unrecorded.items()):
                await self._file.run(self._queue.record, result)
                del self._unrecorded[subject]
            given_up = await self._file.run(self._queue.give_up_oldest, name, MAX_WAITING)
            stored = await self._file.run(self._queue.due, name, now_ms, BATCH)
        except self._unavailable as error:
            log.error("notices wait for their file: %s", error)
            return found
        if given_up:
            log.error("%s gave up the %d oldest of more than %d", name, given_up, MAX_WAITING)
            self._metrics.count(name, GIVEN_UP, given_up)
        known = {one.subject for one in found} | self._memory.subjects(name)
        return [*found, *(one for one in stored if one.subject not in known)]

    async def _deliver(self, notice: Notice) -> None:
        by_whom = await self._acknowledged_by(notice)
        if by_whom:
            await self._record(after_attempt(notice, 0, f"acknowledged by {by_whom}"))
            self._metrics.count(self._notifier.name, ACKNOWLEDGED)
            return
        try:
            await self._notifier.send(notice.subject, notice.body)
        except Exception as error:  # of a library, or the other end's answer
            await self._failed(notice, str(error) or type(error).__name__)
        else:
            await self._record(after_attempt(notice, 0, SENT))
            self._metrics.count(self._notifier.name, notice_metrics.SENT)

    async def _acknowledged_by(self, notice: Notice) -> str:
        """Empty also where it cannot be read: rather told once too often."""
        if self._acknowledged is None:
            return ""
        try:
            return await self._file.run(self._acknowledged, notice.subject)
        except (AcknowledgementsUnavailable, self._unavailable) as error:
            log.error("%s", error)
            return ""

    async def _failed(self, notice: Notice, why: str) -> None:
        now_ms = wall_clock.now_ms()
        name = self._notifier.name
        if 0 < self._give_up_ms <= now_ms - notice.made_at_ms:
            log.error("%s gave up sending %s: %s", name, notice.subject[:200], why)
            self._metrics.count(name, GIVEN_UP)
            await self._record(after_attempt(notice, 0, f"given up: {why}"[:200]))
            return
        log.warning("%s could not send %s, tries again: %s", name, notice.subject[:200], why)
        self._metrics.count(name, FAILED)
        next_at_ms = now_ms + pause_after_ms(notice.attempts + 1)
        await self._record(after_attempt(notice, next_at_ms))

    async def _record(self, result: NoticeResult) -> None:
        """In memory, while the file refuses: a notice that was sent is not sent again for that."""
        if self._memory.settle(result):
            return
        try:
            await self._file.run(self._queue.record, result)
        except self._unavailable as error:
            log.error("notices wait for their file: %s", error)
            self._unrecorded[result.notice.subject] = result
