"""Quality: `meter.quality` → incidents of devices and servers that lose records (Q-1 to Q-3).

Never reads a record and opens no store: sent, arrived, valid and rejected are counted by ingest.
Incidents are acknowledged before the positions are committed (`windowed.py`).
Alone: `spark_apps/driver.py --application quality`.
"""

from __future__ import annotations

import msgspec

from bus.contracts.alarms import Incident
from bus.contracts.meters import QualityCell
from bus.contracts.topics import METER_QUALITY
from ingest.store.quality_cells import key_of
from monitor.models.cell_window import CellWindow
from monitor.models.hysteresis import Hysteresis
from monitor.models.quality import GapIncidents
from spark_apps.publish.incidents import read_incidents, still_open
from spark_apps.queries.context import Context
from spark_apps.queries.windowed import WindowedApplication
from spark_apps.settings import StreamsSettings

_DECODER = msgspec.json.Decoder(QualityCell)


def threshold(settings: StreamsSettings) -> Hysteresis:
    """Opens at the configured share of lost records, closes at half of it."""
    share, minutes = settings.quality_gap_share, settings.quality_gap_minutes
    return Hysteresis(share, share / 2, minutes, minutes)


class Quality(WindowedApplication[QualityCell]):
    """Who has an open incident is resumed from their topic."""

    name: str = "quality"
    topics: tuple[str, ...] = (METER_QUALITY,)

    def __init__(self, context: Context) -> None:
        settings = context.settings
        rule = threshold(settings.streams)
        super().__init__(context, _DECODER, CellWindow(key_of), rule)
        self.trigger_ms = settings.streams.quality_trigger_ms
        self._gaps = GapIncidents(rule, context.register.read())
        for incident in still_open(read_incidents(settings.bus), self.name):
            self._gaps.resume(incident)

    def judge_from(self, minute_ms: int) -> None:
        """See `WindowedApplication.judge_from`."""
        self._gaps.judged_until_ms = minute_ms

    def judge(self, cells: CellWindow[QualityCell], until_ms: int) -> None:
        """With the register as it is now."""
        if until_ms > self._gaps.judged_until_ms:
            self._gaps.register = self._context.register.read()
            self._context.publish_incidents(judge(cells, self._gaps, until_ms))


def judge(window: CellWindow[QualityCell], gaps: GapIncidents, until_ms: int) -> list[Incident]:
    """Judge the minutes up to there (exclusive) that were not judged."""
    return gaps.judge(list(window.between(gaps.judged_until_ms, until_ms)), until_ms)
