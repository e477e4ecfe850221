"""Latency: `meter.latency` → incidents (L-3).

Reads cumulative cells, never records; opens no store. Incidents are acknowledged before the
positions are committed (`windowed.py`). `judge` is pure.
Alone: `spark_apps/driver.py --application latency`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from bus.contracts.topics import METER_LATENCY
from bus.domain.times import MINUTE_MS, minute_of
from bus.wall_clock import now_ms
from monitor.models.cell_window import CellWindow
from monitor.models.hysteresis import Hysteresis
from monitor.models.latency import SETTLE_MS, LatencyIncidents, latency_window, summaries
from spark_apps.context import Context
from spark_apps.incidents import read_incidents, still_open
from spark_apps.settings import StreamsSettings
from spark_apps.windowed import JUDGED_MINUTES, WindowedApplication

if TYPE_CHECKING:
    pass

DECODER = msgspec.json.Decoder(LatencyCell)


def threshold(settings: StreamsSettings) -> Hysteresis:
    """Opens at the threshold, closes at four fifths of it, so that it does not flutter."""
    level_ms = settings.latency_threshold_ms
    return Hysteresis(level_ms, 0.8 * level_ms, settings.latency_minutes, settings.latency_minutes)


class Latency(WindowedApplication[LatencyCell]):
    """Open incidents are resumed from their topic."""

    name: str = "latency"
    topics: tuple[str, ...] = (METER_LATENCY,)

    def __init__(self, context: Context) -> None:
        super().__init__(context, DECODER, latency_window())
        settings = context.settings
        self.trigger_ms = settings.streams.latency_trigger_ms
        self._incidents = LatencyIncidents(threshold(settings.streams))
        self._incidents.judged_until_ms = minute_of(now_ms()) - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(read_incidents(settings.bus), self.name):
            self._incidents.resume(incident)

    def judge(self) -> None:
        """Minutes whose cells have had time to arrive."""
        self._context.publish_incidents(judge(self._window, self._incidents, now_ms()))


def judge(
    window: CellWindow[LatencyCell], incidents: LatencyIncidents, now_ms: int
) -> list[Incident]:
    """Judge the minutes that have ended, and whose cells have had time to arrive."""
    settled_ms = minute_of(now_ms - SETTLE_MS)
    from_ms = max(incidents.judged_until_ms, settled_ms - JUDGED_MINUTES * MINUTE_MS)
    if from_ms >= settled_ms:
        return []
    return incidents.judge(summaries(window.between(from_ms, settled_ms)), settled_ms)
