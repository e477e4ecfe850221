"""Applies the live consumers' batches to the live state; sends listeners a delta every 250 ms, and
of alarms at once: the first of many without a wait, the others together `ALARM_GAP_SECONDS` later.

An error of one listener does not reach the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from zoneinfo import ZoneInfo

from bus.contracts.topics import CONTROL_MIRROR_TAILS
from bus.notify.notice_plan import ALARMS_A_MINUTE
from bus.settings import BusSettings
from monitor.live.live_consumer import EVENTS, RECORDS, LiveBatch, LiveConsumer
from monitor.live.live_state import Delta, LiveState

log = logging.getLogger(__name__)

TICK_SECONDS = 0.25
ALARM_GAP_SECONDS = 0.05  # a delta costs the loop some 10 ms with 50 pages: a fifth of it at most

Listener = Callable[[Delta], None]


class LiveHub:
    """A service that runs until it is cancelled."""

    def __init__(
        self,
        bus: BusSettings,
        zone: ZoneInfo,
        now_ms: Callable[[], int],
        *,
        rows: int,
        decoded_per_second: int,
        alarms_a_minute: int = ALARMS_A_MINUTE,
    ) -> None:
        self.live = LiveState(rows=rows, alarms_a_minute=alarms_a_minute)
        self.records, self.events = (
            LiveConsumer(bus, source, zone, self._on_batch, decoded_per_second=decoded_per_second)
            for source in (RECORDS, EVENTS)
        )
        self._now_ms = now_ms
        self._listeners: list[Listener] = []
        self._has_warned = False
        self._sent_at_s = -ALARM_GAP_SECONDS  # the newest delta, on the loop's clock
        self._due: asyncio.TimerHandle | None = None

    @property
    def unavailable(self) -> str:
        """Why the bus is not read; empty while the brokers answer both consumers."""
        return self.records.unavailable or self.events.unavailable

    def add_listener(self, listener: Listener) -> None:
        """Calls `listener` with every delta that is not empty."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Consume and tick until cancelled."""
        consumers = (self.records, self.events)
        for one in consumers:
            one.start(asyncio.get_running_loop())
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self.tick()
        finally:
            if self._due is not None:
                self._due.cancel()
            await asyncio.gather(*(one.stop() for one in consumers))

    def tick(self) -> None:
        """Sends what has changed since the last tick to all listeners."""
        delta = self.live.delta(self._now_ms())
        if delta.empty:
            return
        for listener in self._listeners:
            try:
                listener(delta)
            except Exception:  # an error of one page must not reach the others
                log.exception("a listener failed")

    def _tick_soon(self) -> None:
        """Now, or as soon as the newest delta is old enough."""
        if self._due is not None:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._sent_at_s + ALARM_GAP_SECONDS - loop.time()
        if wait_s <= 0:
            self._tick_now()
        else:
            self._due = loop.call_later(wait_s, self._tick_now)

    def _tick_now(self) -> None:
        self._due = None
        self._sent_at_s = asyncio.get_running_loop().time()
        self.tick()

    def _on_batch(self, batch: LiveBatch) -> None:
        now_ms = self._now_ms()
        live = self.live
        for topic in batch.recreated:
            self._apply(live.on_recreated, topic)
        self._apply(live.on_counts, batch.counts)
        self._apply(live.on_records, batch.records, now_ms)
        for alarm in batch.alarms:
            self._apply(live.on_alarm, alarm)
        for state in batch.alarm_states:
            self._apply(live.on_alarm_state, state)
        for incident in batch.incidents:
            self._apply(live.on_incident, incident)
        for rule_id, command in batch.commands:
            self._apply(live.on_command, rule_id, command)
        for beside in batch.beside_rules:
            self._apply(live.on_beside_rules, beside)
        for part in batch.diverged_ranges:
            self._apply(live.diverged_ids.apply, part)
        if live.is_awaited:
            self._tick_soon()
        if batch.diverged_ranges and live.diverged_ids.not_held and not self._has_warned:
            self._has_warned = True
            log.warning("%s: too many records; rows are not all marked", CONTROL_MIRROR_TAILS)

    def _apply(self, show: Callable[..., object], *what: object) -> None:
        """Leaves out a record that cannot be shown: it remains on its topic, so an error would
        recur after every restart."""
        try:
            show(*what)
        except Exception:
            log.exception("a record of the bus cannot be shown")
