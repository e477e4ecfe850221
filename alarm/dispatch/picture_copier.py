"""Copies the pictures of alarms to a place of their own, so that they outlive their record's.

A thread beside the recorder: an alarm is stored, shown and told before, and a picture store that is
slow or away holds up nothing. What cannot be copied yet is tried again for a day.
"""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.picture_queue import PictureQueue, WaitingCopies, picture_addresses
from bus.contracts.topics import DAY_MS
from bus.domain.retention import first_retained_day
from bus.runtime import wall_clock
from ingest.store.port import StoreError

log = logging.getLogger(__name__)

BATCH = 50
IDLE_S = 1.0  # how late a copy may begin: pictures are kept for days
REST_S = 60.0  # between looks at what is past its time
AWAY_S = 5.0  # after a failure the picture store is left in peace so long
FORGET_SLICE = 200
FIRST_RETRY_MS = 5_000
LAST_RETRY_MS = 600_000
GIVE_UP_MS = DAY_MS  # an edge whose picture store is away brings a picture later than its record


class AlarmPictures(Protocol):
    """The picture store, as far as alarms need it; both methods raise what its file system does."""

    def copy(self, alarm_id: str, day: str, number: int, url: str) -> str | None:
        """Where the copy is served; None while there is no such picture, empty if it is not
        ours."""
        ...

    def forget(self, before_day: str, limit: int) -> int:
        """Delete at most so many copies of the days before; how many."""
        ...


class PictureCopier:
    """Invariant: an alarm leaves the queue with all its copies, or a day after it was raised."""

    def __init__(
        self,
        queue: PictureQueue,
        pictures: AlarmPictures,
        zone: ZoneInfo,
        alarms_days: int,
        metrics: DispatcherMetrics,
    ) -> None:
        self._queue = queue
        self._pictures = pictures
        self._zone = zone
        self._alarms_days = alarms_days
        self._metrics = metrics
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarm-pictures", daemon=True)

    def start(self) -> PictureCopier:
        """Begin."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End; a store that does not answer is not waited for."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def copy_due(self, now_ms: int) -> bool:
        """Copy what is due; whether more may be. False also after a failure of the store."""
        waiting = self._queue.due(now_ms, BATCH)
        for one in waiting:
            if self._stopping.is_set() or not self._copy(one, now_ms):
                return False
        return len(waiting) == BATCH

    def forget(self, now_ms: int) -> int:
        """Delete a slice of the copies that are past their time; how many."""
        day = first_retained_day(self._alarms_days, now_ms, self._zone)
        try:
            return self._pictures.forget(day, FORGET_SLICE) if day else 0
        except Exception as error:  # every file system has its own
            log.warning("copies of pictures are deleted later: %s", error)
            return 0

    def _run(self) -> None:
        rest_until_ms = 0
        while not self._stopping.is_set():
            now_ms, more = wall_clock.now_ms(), False
            try:
                more = self.copy_due(now_ms)
            except StoreError as error:
                log.warning("pictures of alarms are copied later: %s", error)
            if now_ms >= rest_until_ms and self.forget(now_ms) < FORGET_SLICE:
                rest_until_ms = now_ms + int(REST_S * 1000)
            self._stopping.wait(0 if more else IDLE_S)

    def _copy(self, one: WaitingCopies, now_ms: int) -> bool:
        """Whether the store answered."""
        alarm, copies, absent = one.alarm, dict[str, str](), 0
        day = datetime.fromtimestamp(alarm.raised_at_ms / 1000, self._zone).strftime("%Y%m%d")
        answered = True
        for number, url in enumerate(picture_addresses(alarm)):
            try:
                address = self._pictures.copy(alarm.alarm_id, day, number, url)
            except Exception as error:  # every file system has its own; all mean "not now"
                log.warning("the picture store: %s; pictures of alarms wait", error)
                self._stopping.wait(AWAY_S)
                address, answered = None, False
                break
            absent += address is None
            if address:
                copies[url] = address
        given_up = answered and absent and now_ms - alarm.raised_at_ms >= GIVE_UP_MS
        if given_up:
            log.warning("alarm %s: %d pictures never came", alarm.alarm_id[:200], absent)
            self._metrics.pictures_given_up.inc(absent)
        wait = bool(absent or not answered) and not given_up
        self._queue.settle(one, copies, now_ms + _pause_ms(one.attempts) if wait else 0)
        self._metrics.pictures_copied.inc(len(copies))
        return answered


def _pause_ms(attempts: int) -> int:
    return min(FIRST_RETRY_MS << min(attempts, 20), LAST_RETRY_MS)
