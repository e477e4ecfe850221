"""Latency: `meter.latency` → percentiles per minute in the store, incidents (L-1 to L-3).

In: cumulative cells. Out: summaries with the positions, incidents flushed before them.
Never: a record. Alone: `spark_apps/driver.py --application latency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bus.contracts.topics import EVENT_INCIDENT, METER_LATENCY
from ingest.store.port import StoreBatch
from monitor.latency.hysteresis import Hysteresis
from monitor.latency.model import MINUTE_MS, LatencyBook, LatencyWatch, minute_of
from spark_apps.context import Context, now_ms
from spark_apps.incidents import still_open, told_incidents
from spark_apps.latency.state import cells_of, digest
from spark_apps.latency.transform import transform
from spark_apps.message import Covered, Message
from spark_apps.positions import positions
from spark_apps.settings import StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        self._book = LatencyBook()
        begin_ms = minute_of(now_ms()) - self._book.keep_minutes * MINUTE_MS
        self._book.take(context.reader.latency_cells(from_ms=begin_ms, until_ms=0))
        self._watch = LatencyWatch(threshold(settings.streams))
        told = told_incidents(settings.bus)
        for incident in still_open(told, "latency"):
            self._watch.resume(incident)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return transform(messages)

    def on_batch(self, messages: Sequence[Message], offsets: Covered) -> None:
        """Incidents first: one told twice is told once by its id, one not told would be lost."""
        context = self._context
        outcome = digest(
            self._book, self._watch, cells_of(message.value for message in messages), now_ms()
        )
        for incident in outcome.incidents:
            context.events.send(EVENT_INCIDENT, incident.incident_id, incident)
        if outcome.incidents:
            context.events.flush()
        context.store.apply(
            StoreBatch(latency_summaries=outcome.summaries),
            positions(self.name, context.cluster, offsets),
        )
