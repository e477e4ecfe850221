"""Quality: `meter.quality` → incidents of devices and servers that lose records (Q-1 to Q-3).

Never reads a record and opens no store: sent, arrived, valid and rejected are counted by ingest.
Incidents are acknowledged before the positions are committed. `cells_of` is pure.
Alone: `spark_apps/driver.py --application quality`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bus.client.model import TopicAndPartition
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
from spark_apps.message import OffsetRanges, StreamMessage, ends_of, messages_of
from spark_apps.rebuilding import Rebuilding
from spark_apps.settings import StreamsSettings
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JUDGED_MINUTES = 10  # older minutes were judged, or no driver ran
_DECODER = msgspec.json.Decoder(QualityCell)


def threshold(settings: StreamsSettings) -> Hysteresis:
    """Opens at the configured share of lost records, closes at half of it."""
    share, minutes = settings.quality_gap_share, settings.quality_gap_minutes
    return Hysteresis(share, share / 2, minutes, minutes)


class Quality:
    """Keeps the cells of the last two hours, rebuilt from their topic at every start; who has an
    open incident, from theirs."""

    name: str = "quality"
    topics: tuple[str, ...] = (METER_QUALITY,)
    headers: bool = False

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.trigger_ms = settings.streams.quality_trigger_ms
        self._window: CellWindow[QualityCell] = CellWindow(key_of)
        self._gaps = GapIncidents(threshold(settings.streams), context.register.read())
        self._gaps.judged_until_ms = now_ms() - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(read_incidents(settings.bus), "quality"):
            self._gaps.resume(incident)
        self._rebuilding = Rebuilding(context.group_positions(self.name, self.topics))

    def positions(self) -> dict[TopicAndPartition, int]:
        """Two hours back: where it stands is committed for those who watch the lag."""
        return self._rebuilding.starting_positions(now_ms() - self._window.keep_minutes * MINUTE_MS)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return select_columns(messages, headers=False)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Meters are few: they are read in this process."""
        self.on_batch(messages_of(frame.toArrow()), offsets)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Judge the minutes that have settled; then commit."""
        self._window.add(cells_of(message.value for message in messages))
        self._window.trim()
        if self._rebuilding.is_over(ends_of(offsets)):
            self._judge()
        self._rebuilding.commit(ends_of(offsets))

    def _judge(self) -> None:
        from_ms, until_ms = self._gaps.judged_until_ms, self._gaps.settled_until_ms(now_ms())
        if until_ms <= from_ms:
            return
        self._gaps.register = self._context.register.read()
        cells = list(self._window.between(from_ms, until_ms))
        self._context.publish_incidents(self._gaps.judge(cells, now_ms()))


def cells_of(values: Iterable[bytes | None]) -> list[QualityCell]:
    """The cells of readable messages; others are not ours."""
    cells = []
    for value in values:
        try:
            cells.append(_DECODER.decode(value or b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return cells
