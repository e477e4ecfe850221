"""Latency: `meter.latency` → incidents (L-3).

Reads cumulative cells, never records; opens no store. Incidents are acknowledged before the
positions are committed (`windowed.py`). `judge` is pure.
Alone: `spark_apps/driver.py --application latency`.
"""

from __future__ import annotations

import msgspec

from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from bus.contracts.topics import METER_LATENCY
from monitor.models.cell_window import CellWindow
from monitor.models.hysteresis import Hysteresis
from monitor.models.latency import LatencyIncidents, latency_window, summaries
from spark_apps.publish.incidents import read_incidents, still_open
from spark_apps.queries.context import Context
from spark_apps.queries.windowed import WindowedApplication
from spark_apps.settings import StreamsSettings

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
        settings = context.settings
        rule = threshold(settings.streams)
        super().__init__(context, DECODER, latency_window(), rule)
        self.trigger_ms = settings.streams.latency_trigger_ms
        self._incidents = LatencyIncidents(rule)
        for incident in still_open(read_incidents(settings.bus), self.name):
            self._incidents.resume(incident)

    def judge_from(self, minute_ms: int) -> None:
        """See `WindowedApplication.judge_from`."""
        self._incidents.judged_until_ms = minute_ms

    def judge(self, cells: CellWindow[LatencyCell], until_ms: int) -> None:
        """See `WindowedApplication.judge`."""
        self._context.publish_incidents(judge(cells, self._incidents, until_ms))


def judge(
    window: CellWindow[LatencyCell], incidents: LatencyIncidents, until_ms: int
) -> list[Incident]:
    """Judge the minutes up to there (exclusive) that were not judged."""
    from_ms = incidents.judged_until_ms
    if until_ms <= from_ms:
        return []
    return incidents.judge(summaries(window.between(from_ms, until_ms)), until_ms)
