"""Latency: `meter.latency` → percentiles per minute in the store, incidents (L-1 to L-3).

Summaries are stored with the positions; incidents are flushed before them. Reads cumulative cells,
never records. `digest_cells` and what it calls is pure.
Alone: `spark_apps/driver.py --application latency`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from bus.contracts.topics import EVENT_INCIDENT, METER_LATENCY
from bus.domain.times import MINUTE_MS, minute_of
from bus.wall_clock import now_ms
from ingest.store.port import LatencySummary, StoreBatch
from monitor.models.hysteresis import Hysteresis
from monitor.models.latency import LatencyIncidents, LatencyWindow
from spark_apps.context import Context
from spark_apps.incidents import read_incidents, still_open
from spark_apps.message import OffsetRanges, StreamMessage, messages_of
from spark_apps.positions import positions
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
    """Keeps the cells of the last two hours, rebuilt from the store; open incidents from their
    topic.
    """

    name: str = "latency"
    topics: tuple[str, ...] = (METER_LATENCY,)
    headers: bool = False

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.trigger_ms = settings.streams.latency_trigger_ms
        self._window = LatencyWindow()
        begin_ms = minute_of(now_ms()) - self._window.keep_minutes * MINUTE_MS
        self._window.add(context.store.reader.latency_cells(from_ms=begin_ms, until_ms=0))
        self._incidents = LatencyIncidents(threshold(settings.streams))
        incidents = read_incidents(settings.bus)
        for incident in still_open(incidents, "latency"):
            self._incidents.resume(incident)

    def positions(self) -> dict[TopicAndPartition, int]:
        """The store's, written with the rows."""
        return self._context.stored_positions(self.name)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return select_columns(messages, headers=False)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Meters are few: they are read in this process."""
        self.on_batch(messages_of(frame.toArrow()), offsets)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Incidents first: a repeated one is recognised by its id, a missing one would be lost."""
        context = self._context
        changes = digest_cells(
            self._window, self._incidents, cells_of(message.value for message in messages), now_ms()
        )
        for incident in changes.incidents:
            context.publisher.send(EVENT_INCIDENT, incident.incident_id, incident)
        if changes.incidents:
            context.publisher.flush()
        context.store.writer.apply(
            StoreBatch(latency_summaries=changes.summaries),
            positions(self.name, context.cluster, offsets),
        )


class LatencyChanges(NamedTuple):
    """What one batch changes."""

    summaries: list[LatencySummary]
    incidents: list[Incident]


def cells_of(values: Iterable[bytes | None]) -> list[LatencyCell]:
    """The cells of readable messages; others are not ours."""
    cells = []
    for value in values:
        try:
            cells.append(_DECODER.decode(value or b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return cells


def digest_cells(
    window: LatencyWindow, incidents: LatencyIncidents, cells: Iterable[LatencyCell], now_ms: int
) -> LatencyChanges:
    """Take cells; summarise the minutes they touch; judge the minutes that are over."""
    touched = window.add(cells)
    window.trim()
    return LatencyChanges(window.summaries(touched), _judge(window, incidents, now_ms))


def _judge(window: LatencyWindow, incidents: LatencyIncidents, now_ms: int) -> list[Incident]:
    """Once a minute, over the minutes that have ended since."""
    whole_ms = minute_of(now_ms)
    if incidents.judged_until_ms >= whole_ms:
        return []
    from_ms = max(incidents.judged_until_ms, whole_ms - JUDGED_MINUTES * MINUTE_MS)
    ended = {minute for minute in window.minutes if from_ms <= minute < whole_ms}
    return incidents.judge(window.summaries(ended), now_ms)
