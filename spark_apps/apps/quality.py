"""Quality: `meter.sent` → what was sent per device and minute, beside what ingest counted (Q-1
to Q-3).

Stores the counters with the positions in one transaction, publishes the touched cells on
`meter.quality`, and opens incidents of devices and servers that lose records. Never reads a record:
arrived, valid and rejected are counted by ingest, where each is read once. `counters_of` is pure.
Alone: `spark_apps/driver.py --application quality`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.meters import QualityCell, Sent
from bus.contracts.topics import EVENT_INCIDENT, METER_QUALITY, METER_SENT
from bus.domain.times import MINUTE_MS
from bus.wall_clock import now_ms
from ingest.store.port import StoreBatch
from monitor.models.hysteresis import Hysteresis
from monitor.models.quality import CellKey, GapIncidents
from spark_apps.context import Context
from spark_apps.incidents import read_incidents, still_open
from spark_apps.message import OffsetRanges, StreamMessage, messages_of
from spark_apps.positions import positions
from spark_apps.settings import StreamsSettings
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JUDGED_MINUTES = 10  # older minutes were judged, or no driver ran
_DECODER = msgspec.json.Decoder(Sent)


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
        self._gaps = GapIncidents(threshold(settings.streams), context.register.read())
        self._gaps.judged_until_ms = now_ms() - JUDGED_MINUTES * MINUTE_MS
        for incident in still_open(read_incidents(settings.bus), "quality"):
            self._gaps.resume(incident)

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
        """Count; then judge the minutes that have settled."""
        context = self._context
        counters = counters_of(message.value for message in messages)
        context.store.writer.apply(
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
                    self._context.publisher.send(METER_QUALITY, key, cell)

    def _judge(self) -> None:
        until_ms = self._gaps.settled_until_ms(now_ms())
        if until_ms <= self._gaps.judged_until_ms:
            return
        self._gaps.register = self._context.register.read()
        cells = self._between(self._gaps.judged_until_ms, until_ms)
        incidents = self._gaps.judge(cells, now_ms())
        for incident in incidents:
            self._context.publisher.send(EVENT_INCIDENT, incident.incident_id, incident)
        if incidents:
            self._context.publisher.flush()

    def _between(self, from_ms: int, until_ms: int) -> list[QualityCell]:
        return self._context.store.reader.quality(from_ms=from_ms, until_ms=until_ms)


def counters_of(values: Iterable[bytes | None]) -> list[Sent]:
    """The readable counters, of each only the largest number: they are cumulative in their
    epoch.
    """
    newest: dict[tuple[str, int, CellKey], Sent] = {}
    for value in values:
        try:
            sent = _DECODER.decode(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # not ours
        counter = (sent.producer, sent.epoch, key_of(sent))
        if counter not in newest or newest[counter].sent < sent.sent:
            newest[counter] = sent
    return list(newest.values())


def key_of(cell: Sent | QualityCell) -> CellKey:
    """The device, server and capture minute something counts for."""
    return cell.kind, cell.camera_ip, cell.recognizer_ip, cell.minute_ms
