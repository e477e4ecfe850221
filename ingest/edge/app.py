"""The edge as a process: spool, forwarder, arrival meter, picture writer and one uvicorn worker,
started and stopped together. There is one worker, because the spool has one owner."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import uvicorn

from bus.domain.retention import RetentionSettings
from bus.settings import BusSettings, SiteSettings
from ingest.edge.arrivals import ArrivalMeter
from ingest.edge.edge import Edge
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.protocol import EdgeProtocol
from ingest.edge.routes import create_app
from ingest.edge.sites.epoch_confirmer import EpochConfirmer
from ingest.edge.sites.other_site import SecondEdge
from ingest.edge.sites.second_site import SecondSite
from ingest.edge.sites.site_route import SiteRoute
from ingest.pictures.open import open_pictures
from ingest.pictures.retention import PictureRetention
from ingest.pictures.writer import PictureWriter
from ingest.settings import EdgeSettings, PictureSettings
from ingest.spool import Spool

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 2_000  # beyond, uvicorn answers 503; recognition servers keep theirs open
_STOP_S = 5


@asynccontextmanager
async def open_edge(
    site: SiteSettings,
    bus: BusSettings,
    edge: EdgeSettings,
    pictures: PictureSettings,
    keep: RetentionSettings = RetentionSettings(),
    page_token: str = "",
) -> AsyncIterator[Edge]:
    """Everything behind the routes, closed in the reverse order."""
    folder = edge.spool_dir(site)
    spool = Spool(
        folder / "records",
        max_bytes=edge.spool_max_bytes,
        min_free_bytes=edge.spool_min_free_bytes,
        segment_bytes=edge.spool_segment_bytes,
        retained_max_bytes=edge.retained_max_bytes,
    )
    route = SiteRoute(folder, bus, edge.second_site(bus))
    store = open_pictures(pictures, site, edge)
    picture_writer = PictureWriter(
        store,
        folder / "pictures",
        write_timeout_ms=pictures.write_timeout_ms,
        waiting_max_bytes=pictures.waiting_max_bytes,
    )
    second_edge = SecondEdge(edge.second_site_url, edge.second_site_token or page_token)
    forwarder = SpoolForwarder(spool, route, edge.max_in_flight_records, second_edge)
    arrivals = ArrivalMeter(spool, route, site.name)
    second_site = SecondSite(spool, route, second_edge, move_after_s=edge.move_after_s)
    confirmer = EpochConfirmer(route)
    picture_retention = PictureRetention(store, keep.pictures_days, site.tz)
    forwarder.start()
    arrivals.start()
    if route.has_second:
        second_site.start()
        confirmer.start()
    picture_retention.start()
    try:
        yield Edge(site, edge, spool, forwarder, picture_writer, route, arrivals, page_token)
    finally:
        if route.has_second:
            await asyncio.to_thread(confirmer.stop)
            await asyncio.to_thread(second_site.stop)
        await asyncio.to_thread(forwarder.stop)
        await asyncio.to_thread(arrivals.stop)
        await asyncio.to_thread(picture_retention.close)
        await asyncio.to_thread(picture_writer.close)
        await asyncio.to_thread(spool.close)


async def serve(
    site: SiteSettings,
    bus: BusSettings,
    edge: EdgeSettings,
    pictures: PictureSettings,
    keep: RetentionSettings = RetentionSettings(),
    page_token: str = "",
) -> None:
    """Serve until SIGTERM or SIGINT; logs one line when ready. `page_token` is what its own pages
    ask for."""
    async with open_edge(site, bus, edge, pictures, keep, page_token) as opened:
        config = uvicorn.Config(
            create_app(opened),
            host=edge.host,
            port=edge.port,
            access_log=False,
            log_level="warning",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_STOP_S,
            server_header=False,
            http=partial(EdgeProtocol, on_refused=opened.refusals.on_connection),  # type: ignore[arg-type]
            proxy_headers=bool(edge.trusted_proxies),
            forwarded_allow_ips=edge.trusted_proxies,
        )
        await _Server(config).serve()


class _Server(uvicorn.Server):
    """uvicorn, except that it says when it is ready, and that a signal only ends the serving.

    uvicorn itself raises the signal again once it has served, which would end the process before
    the spool and the forwarder are closed.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            log.info("edge ready on http://%s:%d", self.config.host, self.config.port)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
