"""The bus and the processes: topics, groups, backlog, status, health, metrics, pictures."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import httpx
from fastapi import APIRouter, Depends, HTTPException, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
)

from bus.domain.kinds import KINDS
from bus.domain.visibility import Viewer
from bus.metrics.text import metrics_text
from bus.runtime import wall_clock
from ingest.store.port import Position
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response
from monitor.api.mirror import MirrorUnavailable, mirror_report
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices
from monitor.cluster.bus_overview import BacklogRow, BusOverview, backlog, group_positions
from monitor.cluster.cleaner_pages import read_cleaners
from monitor.cluster.cleaner_status import BrokerCleaner
from monitor.cluster.traffic import metrics_urls
from monitor.http_client import http_client
from monitor.models.mirror_view import why_absent

HEALTH_TIMEOUT_SECONDS = 2.0
API_EVENTS = 200


def platform_routes(services: ConsoleServices) -> APIRouter:
    """Routes of the platform's own state."""
    router = APIRouter()
    bus = Depends(allow(ConsoleOperation.BUS_READ))
    system = Depends(allow(ConsoleOperation.SYSTEM_READ))
    started = time.monotonic()

    @router.get("/healthz")
    async def healthz() -> Response:
        # Anybody may ask: what has stopped, the log says.
        if services.dead_tasks:
            return json_response({"status": "stopped"}, 503)
        return json_response({"status": "ok"})

    @router.get("/api/topics", dependencies=[bus])
    async def topics() -> Response:
        return json_response(await services.cluster.overview())

    @router.get("/api/cluster", dependencies=[bus])
    async def cluster() -> Response:
        poller = services.poller
        newest = list(poller.history.events)[-API_EVENTS:]
        return json_response(
            {"picture": poller.history.last, "events": newest, "away": poller.unavailable}
        )

    @router.get("/api/cleaner", dependencies=[bus])
    async def cleaner() -> Response:
        return json_response({"brokers": await cleaners(services)})

    @router.get("/api/metadata", dependencies=[bus])
    async def metadata() -> Response:
        return json_response(await services.poller.metadata())

    @router.get("/api/groups", dependencies=[bus])
    async def groups() -> Response:
        snapshot = await services.cluster.overview()
        rows = await backlogs(services, snapshot)
        return json_response(
            {"groups": snapshot.groups, "backlog": rows, "faults": snapshot.faults}
        )

    @router.get("/api/status", dependencies=[system])
    async def status() -> Response:
        return json_response(
            {
                "site": services.site.name,
                "uptime_seconds": round(time.monotonic() - started),
                "away": unavailable_parts(services),
                "processes": await asyncio.to_thread(services.read_processes),
                "answers": await health(services),
                "open_incidents": len(services.hub.live.open_incidents()),
            }
        )

    @router.get("/metrics")
    async def metrics(
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.SYSTEM_READ))]
    ) -> Response:
        return Response(_metrics(services, who.viewer), media_type=CONTENT_TYPE_LATEST)

    _add_pictures(router, services)
    return router


def _add_pictures(router: APIRouter, services: ConsoleServices) -> None:
    @router.get("/pictures/{name:path}", dependencies=[Depends(allow(ConsoleOperation.VIEW))])
    async def picture(name: str) -> Response:
        try:
            found = await asyncio.to_thread(services.read_picture, name)
        except (OSError, ValueError) as error:
            raise HTTPException(503, f"the picture store is away: {error}") from error
        if found is None:
            raise HTTPException(404, await _why_absent(services, name))
        content, headers = found
        return Response(content, headers=headers)


async def _why_absent(services: ConsoleServices, name: str) -> str:
    text = "no such picture: deleted after its days, or never stored; other sites' are found by"
    text += " [console] other_site_pictures"
    try:
        report = await mirror_report(services.console.mirror, services.page_token)
    except MirrorUnavailable as error:
        return f"{text}; {error}" if error.is_configured else text
    return f"{text}; {why_absent(report.status.pictures, name)}"


async def cleaners(services: ConsoleServices) -> list[BrokerCleaner]:
    """How far each broker has cleaned its compacted partitions."""
    return await read_cleaners(metrics_urls(services.console.brokers), services.page_token)


def unavailable_parts(services: ConsoleServices) -> dict[str, str]:
    """What cannot be reached now, and why; an empty text is well."""
    return {
        "bus": services.hub.unavailable,
        "records": services.records.unavailable,
        "operations": services.alarms.unavailable,
        "watch": services.watch.unavailable,
        **_site_accounts(services),
    }


def _site_accounts(services: ConsoleServices) -> dict[str, str]:
    """Only where they are carried."""
    replicated = services.site_accounts
    return {} if replicated is None else {"accounts of both sites": replicated.problem}


async def backlogs(services: ConsoleServices, snapshot: BusOverview) -> list[BacklogRow]:
    """The lag of our own applications. One whose store is away is left out, unless the bus knows
    its positions, too."""
    rows: list[BacklogRow] = []
    for application in services.console.applications:
        positions = await _positions(services, application)
        positions = positions or group_positions(application, snapshot)
        if positions:
            rows += backlog(application, positions, snapshot)
    return rows


async def _positions(services: ConsoleServices, application: str) -> list[Position]:
    found: list[Position] = []
    for pool in (services.records, services.alarms):
        try:
            found += await pool.run(lambda r: list(r.positions(application)))
        except QueryUnavailable:
            continue
    return found


async def health(services: ConsoleServices) -> list[dict[str, object]]:
    """Ask every configured process for its pulse, all at once."""
    async with http_client(HEALTH_TIMEOUT_SECONDS) as client:
        names = sorted(services.console.health)
        return list(
            await asyncio.gather(
                *(_pulse(client, name, services.console.health[name]) for name in names)
            )
        )


async def _pulse(client: httpx.AsyncClient, name: str, url: str) -> dict[str, object]:
    begun = time.monotonic()
    try:
        reply = await client.get(url)
        fault = "" if reply.is_success else f"HTTP {reply.status_code}"
    except httpx.HTTPError as error:
        fault = f"{type(error).__name__}: {error}"
    took_ms = round((time.monotonic() - begun) * 1000)
    return {"name": name, "url": url, "fault": fault, "took_ms": took_ms}


def _metrics(services: ConsoleServices, viewer: Viewer) -> bytes:
    """Rules are counted as far as who asks sees them."""
    registry = CollectorRegistry()
    live = services.hub.live
    rate = Gauge(
        "databus_console_records_per_second", "Records passing now", ["kind"], registry=registry
    )
    last = live.rates[-1] if live.rates else None
    for kind in KINDS:
        rate.labels(kind).set(last.rates[kind] if last else 0)
    Gauge("databus_console_rules_in_force", "Rules of the watch list", registry=registry).set(
        services.live_for(viewer).rule_count(wall_clock.now_ms())
    )
    Gauge("databus_console_open_incidents", "Incidents without an end", registry=registry).set(
        len(live.open_incidents())
    )
    reach = Gauge(
        "databus_console_reachable", "1 when the part answers", ["part"], registry=registry
    )
    for part, why in unavailable_parts(services).items():
        reach.labels(part).set(0 if why else 1)
    failed = Counter("databus_console_failed_requests", "Requests answered 500", registry=registry)
    failed.inc(services.failures.count)
    return metrics_text(registry)
