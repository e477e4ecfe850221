"""Quality: `meter.sent` → what was sent per device and minute, beside what ingest counted (Q-1
to Q-3).

In: cumulative counters. Out: counters with the positions in one transaction; the touched cells on
`meter.quality`; incidents of devices and servers that lose records. Never: a record: arrived, valid
and rejected are counted by ingest where each is read once.
Alone: `spark_apps/driver.py --application quality`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bus.contracts.meters import QualityCell, Sent
from bus.contracts.topics import EVENT_INCIDENT, METER_QUALITY, METER_SENT
from ingest.store.port import StoreBatch
from monitor.latency.hysteresis import Hysteresis
from monitor.quality.model import MINUTE_MS, GapWatch
from spark_apps.context import Context, now_ms
from spark_apps.incidents import still_open, told_incidents
from spark_apps.message import Covered, Message
from spark_apps.positions import positions
from spark_apps.quality.state import counters_of, key_of
from spark_apps.quality.transform import transform
from spark_apps.settings import StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JUDGED_MINUTES = 10  # older minutes were judged, or nobody was there to judge them


def threshold(settings: StreamsSettings) -> Hysteresis:
    """Opens at the configured share of lost records, closes at half of it."""
    share, minutes = settings.quality_gap_share, settings.quality_gap_minutes
    return Hysteresis(share, share / 2, minutes, minutes)


class Quality:
    """Keeps who has an open incident, found again on its topic at every start."""

    name: str = "quality"
    topics: tuple[str, ...] = (METER_SENT,)
    headers: bool = False

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.trigger_ms = settings.streams.quality_trigger_ms
        self._watch = GapWatch(threshold(settings.streams), context.register.current())
        self._watch.judged_until_ms = now_ms() - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(told_incidents(settings.bus), "quality"):
            self._watch.resume(incident)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return transform(messages)

    def on_batch(self, messages: Sequence[Message], offsets: Covered) -> None:
        """Count; then judge the minutes that have settled."""
        context = self._context
        counters = counters_of(message.value for message in messages)
        context.store.apply(
            StoreBatch(sent=counters), positions(self.name, context.cluster, offsets)
        )
        self._publish(counters)
        self._judge()

    def _publish(self, counters: list[Sent]) -> None:
        """The whole cells that the counters touched; cumulative, so that a lost one heals."""
        touched = {key_of(sent) for sent in counters}
        for minute_ms in sorted({key[3] for key in touched}):
            for cell in self._between(minute_ms, minute_ms + MINUTE_MS):
                if key_of(cell) in touched:
                    key = f"{cell.camera_ip}:{cell.minute_ms}"
                    self._context.events.send(METER_QUALITY, key, cell)

    def _judge(self) -> None:
        until_ms = self._watch.settled_until_ms(now_ms())
        if until_ms <= self._watch.judged_until_ms:
            return
        self._watch.register = self._context.register.current()
        cells = self._between(self._watch.judged_until_ms, until_ms)
        incidents = self._watch.judge(cells, now_ms())
        for incident in incidents:
            self._context.events.send(EVENT_INCIDENT, incident.incident_id, incident)
        if incidents:
            self._context.events.flush()

    def _between(self, from_ms: int, until_ms: int) -> list[QualityCell]:
        return self._context.reader.quality(from_ms=from_ms, until_ms=until_ms)
