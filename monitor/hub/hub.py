"""The hub: joins the tail to the live state and tells listeners a delta four times a second.

In: batches of the tail. Out: `Delta`s to listeners on the loop, errors of one listener kept from
the others.
Never: NiceGUI, languages, blocking calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from zoneinfo import ZoneInfo

from monitor.hub.live import Delta, LiveState
from monitor.hub.tail import Tail, TailBatch

log = logging.getLogger(__name__)

TICK_SECONDS = 0.25

Listener = Callable[[Delta], None]


class Hub:
    """A service: `run` until cancelled."""

    def __init__(
        self,
        bootstrap_servers: str,
        zone: ZoneInfo,
        now_ms: Callable[[], int],
        *,
        rows: int,
        decoded_per_second: int,
    ) -> None:
        self.live = LiveState(rows=rows)
        self.tail = Tail(
            bootstrap_servers, zone, self._on_batch, decoded_per_second=decoded_per_second
        )
        self._now_ms = now_ms
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Hear every delta that is not empty."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Tail and tick until cancelled."""
        self.tail.start(asyncio.get_running_loop())
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self.tick()
        finally:
            await self.tail.stop()

    def tick(self) -> None:
        """Tell what is new."""
        delta = self.live.delta(self._now_ms())
        if delta.empty:
            return
        for listener in self._listeners:
            try:
                listener(delta)
            except Exception:  # one page's fault must not darken the others
                log.exception("a listener failed")

    def _on_batch(self, batch: TailBatch) -> None:
        now_ms = self._now_ms()
        live = self.live
        self._show(live.on_counts, batch.counts)
        self._show(live.on_sightings, batch.sightings, now_ms)
        for alarm in batch.alarms:
            self._show(live.on_alarm, alarm)
        for incident in batch.incidents:
            self._show(live.on_incident, incident)
        for rule_id, command in batch.commands:
            self._show(live.on_command, rule_id, command)

    def _show(self, show: Callable[..., object], *what: object) -> None:
        """A record that cannot be shown is left out: it stands on its topic, and would come again
        after every restart."""
        try:
            show(*what)
        except Exception:
            log.exception("a record of the bus cannot be shown")
