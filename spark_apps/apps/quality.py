"""Quality: `meter.quality` → incidents of devices and servers that lose records (Q-1 to Q-3).

Never reads a record and opens no store: sent, arrived, valid and rejected are counted by ingest.
Incidents are acknowledged before the positions are committed (`windowed.py`).
Alone: `spark_apps/driver.py --application quality`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bus.contracts.meters import QualityCell
from bus.contracts.topics import METER_QUALITY
from bus.domain.times import MINUTE_MS
from bus.wall_clock import now_ms
from ingest.store.quality_cells import key_of
from monitor.models.cell_window import CellWindow
from monitor.models.hysteresis import Hysteresis
from monitor.models.quality import GapIncidents
from spark_apps.context import Context
from spark_apps.incidents import read_incidents, still_open
from spark_apps.settings import StreamsSettings
from spark_apps.windowed import JUDGED_MINUTES, WindowedApplication

if TYPE_CHECKING:
    pass

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
        super().__init__(context, _DECODER, CellWindow(key_of))
        settings = context.settings
        self.trigger_ms = settings.streams.quality_trigger_ms
        self._gaps = GapIncidents(threshold(settings.streams), context.register.read())
        self._gaps.judged_until_ms = now_ms() - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(read_incidents(settings.bus), self.name):
            self._gaps.resume(incident)

    def judge(self) -> None:
        """Minutes that have settled, with the register as it is now."""
        from_ms, until_ms = self._gaps.judged_until_ms, self._gaps.settled_until_ms(now_ms())
        if until_ms <= from_ms:
            return
        self._gaps.register = self._context.register.read()
        cells = list(self._window.between(from_ms, until_ms))
        self._context.publish_incidents(self._gaps.judge(cells, now_ms()))
