"""Latency and quality over time, aggregated here so that a browser draws at most a screen of
points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS
from bus.runtime.wall_clock import now_ms
from ingest.store.port import QualityDevices, RecordReader
from monitor.api.access import VIEW, json_response, large_response
from monitor.api.clock_estimates import Estimates, clock_estimates, estimate_rows
from monitor.api.latency_totals import LatencyOfSpan, latency_scope
from monitor.api.parameters import KindName, ShortText, moment
from monitor.api.quality_question import QualityOfSpan, QualityQuestion
from monitor.api.series import (
    CURVE_COLUMNS,
    clock_rows,
)
from monitor.api.services import ConsoleServices

MAX_SPAN_MS = 31 * DAY_MS
MAX_DEVICES = 500
MAX_OF_HOUR = 50_000
"""Devices and servers of one hour, all of them: a city has ten thousand."""
HOUR_COLUMNS = ("kind", "camera_ip", "recognizer_ip", "sent", "arrived", "valid", "stored")

T = TypeVar("T")
Scope = Literal["all", "district", "device"]
Span = Callable[..., tuple[int, int]]


def chart_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", dependencies=[VIEW])
    span = _span(services.site.tz)
    _add_latency(router, services, span)
    _add_quality(router, services, span)
    _add_hour(router, services)
    return router


def _span(zone: ZoneInfo) -> Span:
    """The dependency that reads from when until when; by default the last day."""

    def span(since: Annotated[str, Query(alias="from")] = "", until: str = "") -> tuple[int, int]:
        end = moment("until", until, zone) or now_ms()
        begin = moment("from", since, zone) or end - DAY_MS
        if begin >= end:
            raise HTTPException(422, "from must lie before until")
        return begin - begin % MINUTE_MS, end

    return span


def _add_latency(router: APIRouter, services: ConsoleServices, span: Span) -> None:
    """Curves of the latency by minute, or by hour if the span is longer than a day, and apart from
    them the devices whose clock is off, and what is known of their clocks."""

    @router.get("/latency")
    async def latency(
        between: tuple[int, int] = Depends(span),
        scope: Scope = "all",
        scope_id: ShortText = "",
        kind: KindName = "",
    ) -> Response:
        begin, end = _bounded(between, MAX_SPAN_MS)
        if (scope == "all") != (scope_id == ""):
            raise HTTPException(422, "scope_id names the district or device; none for all")
        register = services.register.read()
        whose = latency_scope(scope, scope_id, register)

        def ask(reader: RecordReader) -> tuple[LatencyOfSpan, Estimates]:
            span = {"from_ms": begin, "until_ms": end, "now_ms": now_ms()}
            found = services.latency_totals.query(reader, whose=whose, **span)
            return found, clock_estimates(reader, found, whose, register, **span)

        found, estimates = await services.records.run(ask)
        clocks = [c for c in clock_rows(found.clock_off, register) if kind in ("", c["kind"])]
        other = {c for k, c in found.clock_off if kind not in ("", k)}
        other -= {row["camera_ip"] for row in clocks}
        return json_response(
            {
                "from_ms": begin,
                "until_ms": end,
                "step_ms": found.step_ms,
                "columns": ["minute_ms", "p50", "p95", "p99", "count"],
                "curves": _of_kind(found.curves, kind),
                "total": _of_kind(found.totals, kind),
                "clock_off": clocks[:MAX_DEVICES],
                "clocks": estimate_rows(
                    {ip: known for ip, known in estimates.items() if ip not in other}, register
                ),
            }
        )


def _of_kind(by_kind: Mapping[str, T], kind: str) -> dict[str, T]:
    return {k: v for k, v in by_kind.items() if kind in ("", k)}


def _add_quality(router: APIRouter, services: ConsoleServices, span: Span) -> None:
    """How much of what was sent arrived and was valid."""

    @router.get("/quality")
    async def quality(
        between: tuple[int, int] = Depends(span), kind: KindName = "", camera: ShortText = ""
    ) -> Response:
        begin, end = _bounded(between, MAX_SPAN_MS)
        question = QualityQuestion(begin, end, kind, camera, MAX_DEVICES)

        def ask(reader: RecordReader) -> tuple[QualityOfSpan, list[list[int]]]:
            answer = question.ask(reader, now_ms())
            return answer, answer.curve  # a full one is too much for a turn of the loop

        found, curve = await services.records.run(ask)
        return json_response(
            {
                "from_ms": begin,
                "until_ms": end,
                "slot_ms": found.slot_ms,
                "columns": CURVE_COLUMNS,
                "curve": curve,
                "total": found.totals,
                "devices_from_ms": found.devices_from_ms,
                "devices": found.rows(services.register.read()),
                "devices_total": found.devices.total,
            }
        )


def _add_hour(router: APIRouter, services: ConsoleServices) -> None:
    """Every device's numbers of one hour, by which two sites are compared."""
    zone = services.site.tz

    @router.get("/quality/hour")
    async def quality_hour(at: str) -> Response:
        at_ms = moment("at", at, zone)
        if not at.strip():
            raise HTTPException(422, "at: a time of the hour that is asked for")
        hour_ms = at_ms - at_ms % HOUR_MS

        def ask(reader: RecordReader) -> bytes:
            found = reader.quality_devices(
                step_ms=HOUR_MS, from_ms=hour_ms, until_ms=hour_ms + HOUR_MS, limit=MAX_OF_HOUR
            )
            return _hour_text(hour_ms, found)

        return large_response(await services.records.run(ask))


def _hour_text(hour_ms: int, found: QualityDevices) -> bytes:
    rows = [
        [one.kind, one.camera_ip, one.recognizer_ip, one.sent, one.arrived, one.valid, one.stored]
        for one in found.widest
    ]
    return msgspec.json.encode(
        {"hour_ms": hour_ms, "columns": HOUR_COLUMNS, "total": found.total, "rows": rows}
    )


def _bounded(between: tuple[int, int], longest_ms: int) -> tuple[int, int]:
    begin, end = between
    if end - begin > longest_ms:
        raise HTTPException(422, f"at most {longest_ms // 3_600_000} hours at once")
    return begin, end
