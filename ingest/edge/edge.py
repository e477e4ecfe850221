"""The edge itself: what its routes share, and how records are taken whatever form they came in.

In: posted records. Out: admitted ones, durable in the spool, their pictures before them. Never: an
HTTP status, the form of a body.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime

from fastapi import Request

from bus.runtime import wall_clock
from bus.settings import SiteSettings
from ingest.edge.admission import AdmittedRecord, PostedRecord, RequestInfo, admit
from ingest.edge.arrivals import ArrivalMeter
from ingest.edge.caller import Caller
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.meters import Meters
from ingest.edge.refusal_recorder import RefusalRecorder
from ingest.edge.request import TooLarge
from ingest.edge.sites.site_route import SiteRoute
from ingest.normalise import clock_limits
from ingest.pictures.writer import PictureWriter
from ingest.settings import EdgeSettings
from ingest.spool import Spool, SpoolFull

# Per request, so that one batch with inline pictures does not take all threads
MAX_PICTURES_AT_ONCE = 32
# Records of a request that get warnings: a thousand of one kind say nothing new
MAX_WARNED = 100
RECORDS_AT_ONCE = 200  # about 4 ms of work before the loop serves the next request


class Edge:
    """What the routes share."""

    def __init__(
        self,
        site: SiteSettings,
        settings: EdgeSettings,
        spool: Spool,
        forwarder: SpoolForwarder,
        picture_writer: PictureWriter,
        route: SiteRoute,
        arrivals: ArrivalMeter,
        page_token: str = "",
    ) -> None:
        self.site, self.settings, self.route = site, settings, route
        self.page_token = page_token
        self.spool, self.forwarder, self.picture_writer = spool, forwarder, picture_writer
        self.meters = Meters(spool, forwarder, picture_writer, route, arrivals)
        self.refusals = RefusalRecorder(spool, site.name, self.meters.registry)
        self.asking_ends = asyncio.Lock()
        self._tz = site.tz
        self._clock = clock_limits(site)

    async def accept(
        self, posted: Sequence[PostedRecord], request: RequestInfo
    ) -> list[AdmittedRecord]:
        """Judge all and keep all, each valid or in the quarantine: durable when this returns,
        whatever form they came in. Raises `TooLarge`, `SpoolFull`; nothing is taken then."""
        if len(posted) > self.settings.max_records_per_request:
            raise TooLarge
        admitted = await self._admit(posted, request)
        await self._store_pictures(admitted)
        await self._spool(admitted)
        return admitted

    def request_info(self, request: Request, caller: Caller) -> RequestInfo:
        """Of whom and when; the same for all records of a request."""
        return RequestInfo(
            sender=caller.name,
            source=caller.address,
            received_at_ms=wall_clock.now_ms(),
            day=self.day(),
            site=self.site.name,
            zone=self.site.zone,
            idempotency_key=request.headers.get("idempotency-key", ""),
            replayed=request.headers.get("x-replay", "") == "1",
            max_record_bytes=self.settings.max_record_bytes,
            max_picture_bytes=self.settings.max_picture_bytes,
            clock=self._clock,
        )

    def day(self) -> str:
        """Today at the site, as folders of pictures name it."""
        return datetime.now(self._tz).strftime("%Y%m%d")

    async def _admit(
        self, posted: Sequence[PostedRecord], request: RequestInfo
    ) -> list[AdmittedRecord]:
        """Judge all; a large batch lets others be answered in between."""
        admitted, url_of, warned = [], self.picture_writer.store.url, 0
        for index, record in enumerate(posted):
            if index % RECORDS_AT_ONCE == RECORDS_AT_ONCE - 1:
                await asyncio.sleep(0)
            may_warn = warned < MAX_WARNED
            one = admit(record, index, request, os.urandom(10), url_of, may_warn=may_warn)
            warned += bool(one.warnings)
            admitted.append(one)
        return admitted

    async def _store_pictures(self, admitted: list[AdmittedRecord]) -> None:
        """Pictures first, so that a record on the bus never points to what is still in our
        memory."""
        gate = asyncio.Semaphore(MAX_PICTURES_AT_ONCE)

        async def keep(name: str, data: bytes) -> None:
            async with gate:
                await self.picture_writer.write(name, data)

        pictures = [(name, data) for record in admitted for name, data in record.pictures.items()]
        if pictures:
            await asyncio.gather(*(keep(name, data) for name, data in pictures))

    async def _spool(self, admitted: list[AdmittedRecord]) -> None:
        try:
            await self.spool.append([record.entry for record in admitted])
        except SpoolFull:
            self.meters.count_refused(admitted)
            raise
        self.meters.count_admitted(admitted)
