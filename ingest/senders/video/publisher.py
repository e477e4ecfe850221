"""Publishes the reports of a film on the bus, like any other recognition server.

Pictures go to their store, records to `data.video` and `data.face`, counters to `meter.sent`. A
record's pictures are written first (I-7); a picture store that is unavailable costs the picture,
not the record.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from bus.contracts import headers
from bus.contracts.meters import Sent
from bus.domain.identity import key_of
from bus.domain.kinds import TOPIC_OF_KIND
from bus.domain.times import minute_of
from ingest.senders.replay.bus_sink import BusSink
from ingest.video.reports import Report, VideoSource

log = logging.getLogger(__name__)

# A film is one counting, however often it is looked at: a second look sends the same records, so it
# must not be counted as more. Counters of one epoch are cumulative, the largest number stands.
EPOCH = 1


class PictureSink(Protocol):
    """What this package needs of the picture store."""

    def put(self, name: str, data: bytes) -> None:
        """Durable when it returns."""

    def url(self, name: str) -> str:
        """The address for the record."""


@dataclass(slots=True)
class ReportPublisher:
    """One film's line to bus and picture store."""

    sink: BusSink
    pictures: PictureSink
    source: VideoSource
    sent: Counter[str] = field(default_factory=Counter)
    pictures_lost: int = 0
    _minutes: Counter[tuple[str, int]] = field(default_factory=Counter)

    def send(self, report: Report, now_ms: int) -> None:
        """Pictures first, then the record that names them."""
        message = dict(report.message)
        for key, (name, data) in report.pictures.items():
            if self._write_picture(name, data):
                message[key] = self.pictures.url(name)
        self.sink.put(
            TOPIC_OF_KIND[report.kind],
            key_of(report.kind, camera_ip=self.source.camera_ip),
            msgspec.json.encode(message),
            (
                (headers.RECORD_ID, report.record_id),
                (headers.RECEIVED_AT, str(now_ms)),
                (headers.KIND, report.kind),
                (headers.REPLAY, "1"),  # a film is history: its latency says nothing of the bus
            ),
        )
        self.sent[report.kind] += 1
        self._minutes[report.kind, minute_of(report.captured_at_ms)] += 1

    def finish(self) -> None:
        """Counters, then wait for every acknowledgement; raises `RecordsNotSent`."""
        self.sink.send_counters([self._counter(kind, minute) for kind, minute in self._minutes])
        self.sink.flush()

    def _counter(self, kind: str, minute_ms: int) -> Sent:
        return Sent(
            producer=f"recognise/{self.source.film}/{self.source.checkpoint_id}",
            epoch=EPOCH,
            kind=kind,
            camera_ip=self.source.camera_ip,
            recognizer_ip=self.source.recognizer_ip,
            checkpoint_id=self.source.checkpoint_id,
            minute_ms=minute_ms,
            sent=self._minutes[kind, minute_ms],
        )

    def _write_picture(self, name: str, data: bytes) -> bool:
        try:
            self.pictures.put(name, data)
        except Exception as error:  # every file system of fsspec has exceptions of its own
            self.pictures_lost += 1
            log.warning("picture %s is not kept: %s", name, error)
            return False
        return True
