"""Latency and quality over time, aggregated here so that a browser draws at most a screen of
points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.domain.times import MINUTE_MS
from bus.wall_clock import now_ms
from monitor.api.access import VIEW, json_response
from monitor.api.series import (
    clock_rows,
    quality_curve,
    quality_devices,
    quality_totals,
    slot_ms,
)
from monitor.api.services import ConsoleServices
from monitor.api.views import parse_time

DAY_MS = 24 * 3600 * 1000
MAX_LATENCY_SPAN_MS = 1500 * MINUTE_MS  # by minute; a day and an hour
MAX_QUALITY_SPAN_MS = 31 * DAY_MS
MAX_DEVICES = 500

T = TypeVar("T")
Scope = Literal["all", "district", "device"]
Span = Callable[..., tuple[int, int]]


def chart_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", dependencies=[VIEW])
    span = _span(services.site.tz)
    _add_latency(router, services, span)
    _add_quality(router, services, span)
    return router


def _span(zone: ZoneInfo) -> Span:
    """The dependency that reads from when until when; by default the last day."""

    def span(since: Annotated[str, Query(alias="from")] = "", until: str = "") -> tuple[int, int]:
        try:
            end = parse_time(until, zone) or now_ms()
            begin = parse_time(since, zone) or end - DAY_MS
        except ValueError as error:
            raise HTTPException(422, f"time: {error}") from error
        if begin >= end:
            raise HTTPException(422, "from must lie before until")
        return begin - begin % MINUTE_MS, end

    return span


def _add_latency(router: APIRouter, services: ConsoleServices, span: Span) -> None:
    """Curves of the latency by minute, and apart from them the devices whose clock is off."""

    @router.get("/latency")
    async def latency(
        between: tuple[int, int] = Depends(span),
        scope: Scope = "all",
        scope_id: str = "",
        kind: str = "",
    ) -> Response:
        begin, end = _bounded(between, MAX_LATENCY_SPAN_MS)
        if (scope == "all") != (scope_id == ""):
            raise HTTPException(422, "scope_id names the district or device; none for all")
        found = await services.records.run(
            lambda r: services.latency_totals.query(
                r, from_ms=begin, until_ms=end, scope=scope, scope_id=scope_id, now_ms=now_ms()
            )
        )
        clocks = clock_rows(found.clock_off, services.register.read())
        return json_response(
            {
                "from_ms": begin,
                "until_ms": end,
                "columns": ["minute_ms", "p50", "p95", "p99", "count"],
                "curves": _of_kind(found.curves, kind),
                "total": _of_kind(found.totals, kind),
                "clock_off": [c for c in clocks if kind in ("", c["kind"])][:MAX_DEVICES],
            }
        )


def _of_kind(by_kind: Mapping[str, T], kind: str) -> dict[str, T]:
    return {k: v for k, v in by_kind.items() if kind in ("", k)}


def _add_quality(router: APIRouter, services: ConsoleServices, span: Span) -> None:
    """How much of what was sent arrived and was valid."""

    @router.get("/quality")
    async def quality(
        between: tuple[int, int] = Depends(span), kind: str = "", camera: str = ""
    ) -> Response:
        begin, end = _bounded(between, MAX_QUALITY_SPAN_MS)
        cells = await services.records.run(
            lambda r: r.quality(from_ms=begin, until_ms=end, kind=kind)
        )
        if camera:
            cells = [c for c in cells if c.camera_ip == camera]
        slot, asked_ms = slot_ms(begin, end), now_ms()
        devices = quality_devices(cells, services.register.read(), asked_ms)
        return json_response(
            {
                "from_ms": begin,
                "until_ms": end,
                "slot_ms": slot,
                "columns": ["slot_ms", "sent", "arrived", "valid"],
                "curve": quality_curve(cells, slot),
                "total": quality_totals(cells, asked_ms),
                "devices": devices[:MAX_DEVICES],
                "devices_total": len(devices),
            }
        )


def _bounded(between: tuple[int, int], longest_ms: int) -> tuple[int, int]:
    begin, end = between
    if end - begin > longest_ms:
        raise HTTPException(422, f"at most {longest_ms // 3_600_000} hours at once")
    return begin, end
