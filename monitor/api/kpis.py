"""The few numbers on top of the live page, queried once for all clients.

Polls only while a page is open, and uses at most a twentieth of the store's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from bus.contracts.meters import LatencyCell
from bus.domain.times import MINUTE_MS
from ingest.store.port import Query, RecordReader
from ingest.store.rollups import ALL, ODD
from monitor.api.pool import QueryUnavailable, ReaderPool
from monitor.api.series import latency_histograms, percentiles_of, valid_percent
from monitor.models.clock_faults import sound_cells
from monitor.models.histogram import merge

PERIOD_SECONDS = 5.0
REST_FACTOR = 20.0  # rest so many times as long as the questions took
LATENCY_SPAN_MS = 5 * MINUTE_MS
QUALITY_SPAN_MS = 15 * MINUTE_MS
SETTLE_MS = 90_000  # younger minutes still have records and counters under way


class Kpis(msgspec.Struct, frozen=True, kw_only=True):
    """None = not known: nothing to measure yet, or the store is away."""

    stored_today: int | None = None
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None
    valid_percent: float | None = None


class KpiPoll:
    """A service: `run` until cancelled; `on_change` hears every new value."""

    def __init__(
        self,
        records: ReaderPool[RecordReader],
        now_ms: Callable[[], int],
        midnight_ms: Callable[[], int],
    ) -> None:
        self.value = Kpis()
        self.watched: Callable[[], bool] = lambda: False
        self.on_change: Callable[[Kpis], None] = lambda _: None
        self._records = records
        self._now_ms = now_ms
        self._midnight_ms = midnight_ms

    async def run(self) -> None:
        """Ask, rest, ask."""
        while True:
            begun = time.monotonic()
            if self.watched():
                await self.poll()
            took = time.monotonic() - begun
            await asyncio.sleep(max(PERIOD_SECONDS, took * REST_FACTOR))

    async def poll(self) -> Kpis:
        """Ask now."""
        try:
            self.value = await self._records.run(self._query)
        except QueryUnavailable:
            self.value = Kpis()
        self.on_change(self.value)
        return self.value

    def _query(self, reader: RecordReader) -> Kpis:
        now = self._now_ms()
        latency = _latency(reader, now)
        quality = reader.quality_sums(
            step_ms=MINUTE_MS,
            from_ms=now - SETTLE_MS - QUALITY_SPAN_MS,
            until_ms=now - SETTLE_MS,
        )
        today = Query(captured_from_ms=self._midnight_ms(), captured_until_ms=0)
        return Kpis(
            stored_today=reader.count(today),
            latency_p50_ms=latency["p50_ms"] if latency else None,
            latency_p99_ms=latency["p99_ms"] if latency else None,
            valid_percent=valid_percent(
                sum(c.sent for c in quality), sum(c.valid for c in quality)
            ),
        )


def _latency(reader: RecordReader, now_ms: int) -> dict[str, int] | None:
    """One wrong clock would else be the tile's p99; None: nothing was stored."""

    def sums(scope: str) -> list[LatencyCell]:
        from_ms = now_ms - LATENCY_SPAN_MS
        return reader.latency_sums(
            step_ms=MINUTE_MS, from_ms=from_ms, until_ms=now_ms + 1, scope=scope
        )

    cells = sums(ALL)
    late, _ = sound_cells(sums(ODD))
    every = merge(latency_histograms([*cells, *late]).values())
    return percentiles_of(every) if every else None
