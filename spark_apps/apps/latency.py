"""Latency: `meter.latency` → incidents (L-3).

Reads cumulative cells, never records; opens no store. Incidents are acknowledged before the
positions are committed. `cells_of` and `judge` are pure.
Alone: `spark_apps/driver.py --application latency`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bus.client.model import TopicAndPartition
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
from spark_apps.message import OffsetRanges, StreamMessage, ends_of, messages_of
from spark_apps.rebuilding import Rebuilding
from spark_apps.settings import StreamsSettings
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECODER = msgspec.json.Decoder(LatencyCell)
JUDGED_MINUTES = 10  # older minutes were judged, or no driver ran


def threshold(settings: StreamsSettings) -> Hysteresis:
    """Opens at the threshold, closes at four fifths of it, so that it does not flutter."""
    level_ms = settings.latency_threshold_ms
    return Hysteresis(level_ms, 0.8 * level_ms, settings.latency_minutes, settings.latency_minutes)


class Latency:
    """Keeps the cells of the last two hours, rebuilt from their topic at every start; open
    incidents from theirs.
    """

    name: str = "latency"
    topics: tuple[str, ...] = (METER_LATENCY,)
    headers: bool = False

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.trigger_ms = settings.streams.latency_trigger_ms
        self._window = latency_window()
        self._incidents = LatencyIncidents(threshold(settings.streams))
        self._incidents.judged_until_ms = minute_of(now_ms()) - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(read_incidents(settings.bus), "latency"):
            self._incidents.resume(incident)
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
        """Incidents first: a repeated one is recognised by its id, a missing one would be lost."""
        self._window.add(cells_of(message.value for message in messages))
        self._window.trim()
        if self._rebuilding.is_over(ends_of(offsets)):
            self._context.publish_incidents(judge(self._window, self._incidents, now_ms()))
        self._rebuilding.commit(ends_of(offsets))


def cells_of(values: Iterable[bytes | None]) -> list[LatencyCell]:
    """The cells of readable messages; others are not ours."""
    cells = []
    for value in values:
        try:
            cells.append(_DECODER.decode(value or b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return cells


def judge(
    window: CellWindow[LatencyCell], incidents: LatencyIncidents, now_ms: int
) -> list[Incident]:
    """Judge the minutes that have ended, and whose cells have had time to arrive."""
    settled_ms = minute_of(now_ms - SETTLE_MS)
    from_ms = max(incidents.judged_until_ms, settled_ms - JUDGED_MINUTES * MINUTE_MS)
    if from_ms >= settled_ms:
        return []
    return incidents.judge(summaries(window.between(from_ms, settled_ms)), settled_ms)
