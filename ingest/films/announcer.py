"""What the catalogue says, on `data.video-segment`: each row until the bus has confirmed it.

In: a catalogue, a bus. Out: rows marked as announced. A bus that is away delays, and loses nothing.
"""

from __future__ import annotations

import logging
import threading
from functools import partial

import msgspec

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.contracts import headers
from bus.contracts.topics import DATA_VIDEO_SEGMENT, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings
from ingest.films.catalogue import CatalogueRow, FilmCatalogue

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 200
MESSAGE_TIMEOUT_MS = 30_000


class SegmentAnnouncer:
    """One producer."""

    def __init__(self, bus: BusSettings, catalogue: FilmCatalogue, client_id: str) -> None:
        self._catalogue = catalogue
        self._producer = Producer(
            bus, client_id=client_id, overrides={"message.timeout.ms": MESSAGE_TIMEOUT_MS}
        )
        self._lock = threading.Lock()

    def announce_due(self) -> bool:
        """Send what is due and wait for it; whether nothing is left."""
        while rows := self._catalogue.to_announce(MAX_IN_FLIGHT):
            confirmed = self._send(rows)
            self._catalogue.announced(confirmed)
            if len(confirmed) < len(rows):
                return False
        return True

    def close(self) -> None:
        """End the client."""
        self._producer.close()

    def _send(self, rows: list[CatalogueRow]) -> list[CatalogueRow]:
        confirmed: list[CatalogueRow] = []
        errors: list[str] = []

        def on_delivery(row: CatalogueRow, report: DeliveryReport) -> None:
            with self._lock:
                if isinstance(report, DeliveryError):
                    errors.append(str(report))
                else:
                    confirmed.append(row)

        try:
            for row in rows:
                self._producer.send(
                    DATA_VIDEO_SEGMENT,
                    msgspec.json.encode(row.segment),
                    key=row.segment.camera_ip,
                    headers=[(headers.SCHEMA, TOPICS[DATA_VIDEO_SEGMENT].schema)],
                    on_delivery=partial(on_delivery, row),
                )
        except BusError as error:
            errors.append(str(error))
        while self._producer.flush():
            pass  # each message's own time-out ends this
        if errors:
            log.warning("segments are not announced yet: %s", errors[0])
        with self._lock:
            return list(confirmed)
