"""The role `mirror`: one process that copies until it is stopped, shows metrics, writes its status.

In: settings. Out: copied records. Core: `dr_mirror.service.mirror`. Never: a start between clusters
that may not be mirrored, or a copy into the primary.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from bus.client.wire.security import wire_security
from bus.contracts.mirror_status import MirrorReport, MirrorStatus, PictureStatus
from bus.domain.site_epochs import SiteClusters, SiteEpochs
from bus.errors import BusError
from bus.metrics.server import MetricsServer
from bus.runtime.file_thread import FileThread
from bus.runtime.tasks import spawn, watch
from bus.runtime.wall_clock import now_ms
from bus.settings import SiteSettings
from dr_mirror.copy.plan.pace import LinkLimit
from dr_mirror.edges.edge_watch import EdgeWatch
from dr_mirror.pictures.picture_link import PictureLink
from dr_mirror.pictures.picture_replicator import PictureReplicator
from dr_mirror.pictures.plan.pictures import in_all
from dr_mirror.policy.picture_policy import PicturePolicy
from dr_mirror.report.edge_refinement import refine_always
from dr_mirror.report.report_file import reports_folder
from dr_mirror.service.instance_group import InstanceGroup
from dr_mirror.service.mirror import Mirror
from dr_mirror.service.site_watch import SiteWatch, directed, waits_for_rejoin
from dr_mirror.settings import MirrorSettings
from dr_mirror.state.state_replicator import StateReplicator
from dr_mirror.status.metrics import MirrorMetrics
from dr_mirror.status.plan.report import LagCurve
from dr_mirror.status.plan.status import is_fenced, with_edges
from dr_mirror.status.status_file import (
    pictures_path,
    reconciliation_path,
    status_path,
    write_status,
)
from dr_mirror.switch.drill import DrillProtocol, LastDrill, drills_path
from dr_mirror.topics.sites import SitesError

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
CompleteStatus = Callable[[MirrorStatus], MirrorStatus]

STATUS_S = 1.0
STATUS_TIMEOUT_S = 5.0
IDENTIFY_S = 2.0
"""How long between two questions to clusters of which one does not answer yet."""


class MirrorNotConfigured(Exception):
    """The mirror cannot start; the text says which setting to change."""


class StatusPage:
    """What `/metrics` and `/status` show. Invariant: a report is not changed once it is made, so
    that the page's thread may encode it."""

    def __init__(self, metrics: MirrorMetrics) -> None:
        self._metrics = metrics
        self._curve = LagCurve()
        self._report: MirrorReport | None = None

    def show(self, status: MirrorStatus) -> None:
        """The newest status."""
        self._metrics.show(status)
        self._curve.add(status)
        self._report = self._curve.report(status)

    async def wait_until_fenced(self, since_ms: int) -> None:
        """Return once a status since then says that a newer instance copies."""
        while True:
            status = self._report.status if self._report is not None else None
            if status is not None and status.at_ms >= since_ms and is_fenced(status):
                return
            await asyncio.sleep(STATUS_S)

    def json(self) -> str:
        """The report; `null` before both clusters have answered."""
        return msgspec.json.encode(self._report).decode()


async def serve(site: SiteSettings, settings: MirrorSettings, page_token: str = "") -> None:
    """Run until SIGTERM or Ctrl-C; `page_token` is what its pages ask for. Raises
    MirrorNotConfigured."""
    if settings.unset_servers:
        raise MirrorNotConfigured(settings.unset_servers)
    for name in ("source_librdkafka", "target_librdkafka"):
        try:
            wire_security(getattr(settings, name))
        except BusError as error:
            raise MirrorNotConfigured(f"mirror.{name}: {error.detail}") from None
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    metrics = MirrorMetrics()
    status_page = StatusPage(metrics)
    page = MetricsServer(
        settings.metrics_host, settings.metrics_port, metrics.registry,
        {b"/status": status_page.json}, page_token=page_token,
    )  # fmt: skip
    edge_token = settings.edge_token or page_token
    edges = EdgeWatch(settings.edge_urls, edge_token)
    work = partial(_copy_always, site, settings, status_page, edges)
    main = loop.create_task(
        _work_by_turns(settings, status_page, work) if settings.standby else work(), name="mirror"
    )
    # Apart from copying, which waits for both clusters: edges are asked while one is dead.
    asking = [
        spawn(edges.run(), name="edges"),
        spawn(refine_always(reports_folder(site), settings.edge_urls, edge_token), name="reports"),
    ]
    ended = loop.create_task(stopping.wait(), name="stop")
    try:
        await asyncio.wait((main, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        page.close()
        for task in (ended, *asking, main):
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await main


async def _work_by_turns(
    settings: MirrorSettings, status_page: StatusPage, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Copy when no other instance does. What ends a turn is a newer generation: an instance that
    only cannot reach the group goes on."""
    group, turn = InstanceGroup(settings.target_bus).start(), 0
    try:
        while True:
            log.info("mirror: this instance stands by")
            turn = await group.wait_for_turn(turn)
            log.warning("mirror: it is this instance's turn")
            await _until_first(work(), status_page.wait_until_fenced(now_ms()))
    finally:
        await asyncio.to_thread(group.close)


async def _copy_always(
    site: SiteSettings, settings: MirrorSettings, status_page: StatusPage, edges: EdgeWatch
) -> None:
    """Copy from the primary; after each switch from the other one."""
    if settings.topic_prefixes:
        await _copy_one_way(site, settings, status_page, edges)
        return
    watch_sites = SiteWatch(settings)
    pictures = PictureCopying(site, settings)
    try:
        while True:
            epochs = await _answered(watch_sites.identify)
            if waits_for_rejoin(epochs):
                pictures.turn(epochs, LinkLimit(settings.link_bytes_per_s), _no_lag)
                log.warning(
                    "mirror: nothing is copied after a forced switch until the former primary has "
                    "rejoined: databus mirror switch --back (%s)", epochs.newest,
                )  # fmt: skip
                await watch_sites.wait_for_switch(epochs)
                continue
            await MirrorTurn(site, settings, epochs, watch_sites, edges, pictures).run(status_page)
            log.warning("mirror: the primary site has changed: %s", watch_sites.epochs.newest)
    finally:
        pictures.stop()
        watch_sites.close()


async def _copy_one_way(
    site: SiteSettings, settings: MirrorSettings, status_page: StatusPage, edges: EdgeWatch
) -> None:
    """Whatever site epochs say: both sites are primary, each for its own topics."""
    mirror = Mirror(settings, reconciliation_path(site, is_back=False))

    def completed(status: MirrorStatus) -> MirrorStatus:
        return with_edges(status, edges.statuses)

    try:
        await _copy(site, mirror, status_page, completed)
    finally:
        mirror.close()


class PictureCopying:
    """Pictures from the primary's edge to the other one's, and after a switch from that one, too:
    cameras stay with their edge. What the edge of a site that is lost still has goes on coming
    until another direction is known, which takes both sites' word."""

    def __init__(self, site: SiteSettings, settings: MirrorSettings) -> None:
        self._site, self._settings = site, settings
        self._copiers: list[PictureReplicator] = []
        self._link: PictureLink | None = None

    @property
    def status(self) -> PictureStatus:
        """How it stands, in both directions."""
        return in_all([each.status for each in self._copiers])

    def turn(self, epochs: SiteEpochs, limit: LinkLimit, lag_bytes: Callable[[], int]) -> None:
        """From the primary on, and back where there was a switch; after a forced one, until the
        former primary has rejoined, from that one only."""
        self.stop()
        if self._settings.pictures is PicturePolicy.NONE:
            return
        primary = epochs.copied_from
        secondary = epochs.clusters.other(primary)
        sources = [primary] if epochs.newest is None else [primary, secondary]
        if waits_for_rejoin(epochs):
            sources = [secondary]
        self._link = PictureLink(asyncio.get_running_loop(), limit, lag_bytes)
        self._copiers = [self._begin(epochs.clusters, each, self._link) for each in sources]

    def _begin(
        self, clusters: SiteClusters, source: str, link: PictureLink
    ) -> PictureReplicator:
        now = directed(self._settings, clusters, source)
        path = pictures_path(self._site, is_back=source != clusters.source)
        return PictureReplicator(now, clusters.other(source), path, link).start()

    def free_link(self) -> None:
        """No records come over it for now."""
        if self._link is not None:
            self._link.lag_bytes = _no_lag

    def stop(self) -> None:
        """End what goes on."""
        for each in self._copiers:
            each.stop()
        self._copiers = []


def _no_lag() -> int:
    """No records come over the link for now."""
    return 0


class MirrorTurn:
    """Copying in one direction, from the primary that these epochs name, until a switch: records,
    what commands and people have made, and pictures."""

    def __init__(
        self, site: SiteSettings, settings: MirrorSettings, epochs: SiteEpochs,
        sites: SiteWatch, edges: EdgeWatch, pictures: PictureCopying,
    ) -> None:  # fmt: skip
        source = epochs.copied_from
        is_back = source != epochs.clusters.source
        now = directed(settings, epochs.clusters, source)
        self._site, self._epochs = site, epochs
        self._sites, self._edges, self._pictures = sites, edges, pictures
        self._mirror = Mirror(now, reconciliation_path(site, is_back=is_back))
        self._state = StateReplicator(
            now.source_bus, now.target_bus, source, partial(sites.fenced_ms, source)
        )
        self._is_state_replicated = settings.is_state_replicated

    async def run(self, status_page: StatusPage) -> None:
        """Return when the primary has changed."""
        if self._is_state_replicated:
            self._state.start()
        self._pictures.turn(self._epochs, self._mirror.link, self._mirror.copied.lag_bytes)
        copying = _copy(self._site, self._mirror, status_page, self.completed)
        try:
            await _until_first(copying, self._sites.wait_for_switch(self._epochs))
        finally:
            self._pictures.free_link()
            self._state.stop()  # its last pass goes on beside the mirror the other way
            self._mirror.close()

    def completed(self, status: MirrorStatus) -> MirrorStatus:
        """With what those say that work beside the copy."""
        return msgspec.structs.replace(
            with_edges(status, self._edges.statuses), state=self._state.statuses,
            confirmed=self._sites.confirmed, pictures=self._pictures.status,
        )  # fmt: skip


async def _until_first(
    work: Coroutine[Any, Any, None], ending: Coroutine[Any, Any, None]
) -> None:
    """Work until it fails, or what ends it has come."""
    loop = asyncio.get_running_loop()
    working = loop.create_task(work, name="mirror work")
    waiting = loop.create_task(ending, name="end of work")
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, waiting):
            if task.done():
                task.result()
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)


async def _copy(
    site: SiteSettings, mirror: Mirror, status_page: StatusPage, completed: CompleteStatus
) -> None:
    await _identify(site, mirror)
    clusters = mirror.clusters
    log.info(
        "mirror: ready, from cluster %s to cluster %s, generation %d",
        clusters.source_cluster_id, clusters.target_cluster_id, clusters.generation,
    )  # fmt: skip
    async with asyncio.TaskGroup() as tasks:
        watch(tasks.create_task(mirror.run(), name="copying"))
        reporting = _report_again_and_again(site, mirror, status_page, completed)
        watch(tasks.create_task(reporting, name="status"))


async def _identify(site: SiteSettings, mirror: Mirror) -> None:
    """Wait until both clusters have answered. Raises MirrorNotConfigured."""
    try:
        await _answered(mirror.identify)
    except SitesError as error:
        raise MirrorNotConfigured(error.text(site.language)) from None


async def _answered(ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Ask until both clusters have answered."""
    while True:
        try:
            return await ask()
        except BusError as error:
            log.warning("mirror: a cluster does not answer yet: %s", error)
            await asyncio.sleep(IDENTIFY_S)


def with_drill(status: MirrorStatus, drilled: DrillProtocol | None) -> MirrorStatus:
    """What the last drill says of a switch."""
    if drilled is None:
        return status
    return msgspec.structs.replace(status, rto_s=drilled.rto_s, drilled_ms=drilled.at_ms)


async def _report_again_and_again(
    site: SiteSettings, mirror: Mirror, status_page: StatusPage, completed: CompleteStatus
) -> None:
    path, drills = status_path(site), LastDrill(drills_path(site))
    thread = FileThread("mirror status", STATUS_TIMEOUT_S, OSError)
    drilled: DrillProtocol | None = None
    try:
        while True:
            status = completed(with_drill(await mirror.status(now_ms()), drilled))
            status_page.show(status)
            try:
                await thread.run(write_status, path, status)
                drilled = await thread.run(drills.read)
            except OSError as error:  # copying is worth more than its report
                log.warning("the status cannot be written: %s", error)
            await asyncio.sleep(STATUS_S)
    finally:
        thread.close()
