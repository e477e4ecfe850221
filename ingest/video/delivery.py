"""Sends the reports of a film over the bus, like any other recognition server.

In: `Report`s. Out: pictures in their store, records on `data.video` and `data.face`, counters on
`meter.sent`. Never: a record without a try to keep its pictures first (I-7); a picture
store that is away costs the picture, not the record.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from bus.contracts import headers
from bus.contracts.meters import Sent
from bus.contracts.topics import DATA_FACE, DATA_VIDEO
from ingest.normalise.key import key_of
from ingest.replay.bus_sink import BusSink
from ingest.video.reports import Place, Report

log = logging.getLogger(__name__)

MINUTE_MS = 60_000
# A film is one counting, however often it is looked at: a second look sends the same records, so it
# must not be counted as more. Counters of one epoch are cumulative, the largest number stands.
EPOCH = 1
TOPIC_OF_KIND = {"video": DATA_VIDEO, "face": DATA_FACE}


class Pictures(Protocol):
    """What this room needs of the picture store."""

    def put(self, name: str, data: bytes) -> None:
        """Durable when it returns."""

    def url(self, name: str) -> str:
        """The address for the record."""


@dataclass(slots=True)
class Delivery:
    """One film's line to bus and picture store."""

    sink: BusSink
    pictures: Pictures
    place: Place
    sent: Counter[str] = field(default_factory=Counter)
    pictures_lost: int = 0
    _minutes: Counter[tuple[str, int]] = field(default_factory=Counter)

    def send(self, report: Report, now_ms: int) -> None:
        """Pictures first, then the record that names them."""
        message = dict(report.message)
        for key, (name, data) in report.pictures.items():
            if self._kept(name, data):
                message[key] = self.pictures.url(name)
        self.sink.put(
            TOPIC_OF_KIND[report.kind],
            key_of(report.kind, camera_ip=self.place.camera_ip),
            msgspec.json.encode(message),
            (
                (headers.RECORD_ID, report.record_id),
                (headers.RECEIVED_AT, str(now_ms)),
                (headers.KIND, report.kind),
                (headers.REPLAY, "1"),  # a film is history: its latency says nothing of the bus
            ),
        )
        self.sent[report.kind] += 1
        self._minutes[report.kind, report.captured_at_ms // MINUTE_MS * MINUTE_MS] += 1

    def finish(self) -> None:
        """Counters, then wait for every acknowledgement; raises `NotSent`."""
        self.sink.tell([self._counter(kind, minute) for kind, minute in self._minutes])
        self.sink.flush()

    def _counter(self, kind: str, minute_ms: int) -> Sent:
        return Sent(
            producer=f"recognise/{self.place.film}/{self.place.checkpoint_id}",
            epoch=EPOCH,
            kind=kind,
            camera_ip=self.place.camera_ip,
            recognizer_ip=self.place.recognizer_ip,
            checkpoint_id=self.place.checkpoint_id,
            minute_ms=minute_ms,
            sent=self._minutes[kind, minute_ms],
        )

    def _kept(self, name: str, data: bytes) -> bool:
        try:
            self.pictures.put(name, data)
        except Exception as error:  # every file system of fsspec has exceptions of its own
            self.pictures_lost += 1
            log.warning("picture %s is not kept: %s", name, error)
            return False
        return True
