"""Puts the watch's incidents on `event.incident`, in their order, when the bus is there.

A row of the file is marked when the broker has acknowledged it; a kill between the two publishes it
again, and readers take an id's opening and end once.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import msgspec

from bus.client.kafka.producer import AsyncProducer
from bus.contracts.alarms import Incident
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import EVENT_INCIDENT, TOPICS
from bus.errors import BusError
from bus.runtime.file_thread import FileThread
from bus.settings import BusSettings
from monitor.watch.incident_file import IncidentFile, IncidentFileError
from monitor.watch.incident_keeper import FILE_S, IncidentKeeper

log = logging.getLogger(__name__)

BATCH = 100
RETRY_S = 2.0
CLOSE_S = 2.0  # what a stop waits for an acknowledgement; the row stays unpublished
_OVERRIDES = {
    "linger.ms": 0,
    "message.timeout.ms": 5_000,  # then the row is tried again
    "queue.buffering.max.kbytes": 1024,
    "log_level": 0,
}


class IncidentPublisher:
    """A service: `run` until cancelled. The producer is made for the first incident.

    What the file would not take yet is published from memory, and again when the file has it.
    """

    def __init__(
        self, file: IncidentFile, keeper: IncidentKeeper, bus: BusSettings, site_name: str
    ) -> None:
        self.is_bus_there = False
        self._file = file
        self._keeper = keeper
        self._thread = FileThread("publisher", FILE_S, IncidentFileError)
        self._from_memory: set[tuple[str, str]] = set()  # published, and not in the file yet
        self._bus = bus
        self._headers = [(SCHEMA, TOPICS[EVENT_INCIDENT].schema), (SITE, site_name)]
        self._producer: AsyncProducer | None = None

    async def run(self) -> None:
        """Publish what is there, look again, until cancelled."""
        try:
            while True:
                if self.is_bus_there:
                    await self._publish()
                await asyncio.sleep(RETRY_S)
        finally:
            self._thread.close()
            await self._close()

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(CLOSE_S)

    async def _publish(self) -> None:
        try:
            await self._publish_unsaved()
            with suppress(IncidentFileError):  # said where incidents are written
                rows = await self._thread.run(self._file.unpublished, BATCH)
                for row_id, incident in rows:
                    await self._produce(incident)
                    await self._thread.run(self._file.mark_published, row_id)
        except BusError as error:
            log.warning("incidents wait for the bus: %s", error)
            await self._close()  # the next one may be asked afresh

    async def _publish_unsaved(self) -> None:
        refused = self._keeper.unsaved if self._keeper.memory else []
        names = {(one.incident_id, one.state): one for one, _ in refused}
        self._from_memory &= names.keys()
        for name, incident in names.items():
            if name not in self._from_memory:
                await self._produce(incident)
                self._from_memory.add(name)

    async def _produce(self, incident: Incident) -> None:
        if self._producer is None:
            self._producer = AsyncProducer(
                self._bus, client_id="databus-watch", overrides=_OVERRIDES
            )
        await self._producer.produce(
            EVENT_INCIDENT, msgspec.json.encode(incident), key=incident.incident_id,
            headers=self._headers,
        )  # fmt: skip
