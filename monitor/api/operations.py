"""Incidents, the watch list, the register; alarms are in `alarms`. A rule takes effect where the
rules are read, not here."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Literal, TypedDict

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from bus.client.kafka.command_client import new_command_id
from bus.contracts.alarm_states import RuleVerdicts
from bus.contracts.commands import (
    ANY_VERSION,
    USUAL_KIND,
    USUAL_QUIET_S,
    MatchedKind,
    WatchCommand,
)
from bus.contracts.expressions import Expression
from bus.domain.matchable import MATCHABLE
from bus.domain.rule_check import parsed_where
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from bus.runtime.wall_clock import now_ms
from ingest.store.port import PageRequest
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import VIEW, allow, json_response, read_json
from monitor.api.alarm_life import is_hidden_alarm, verdicts_by_rule
from monitor.api.alarm_views import verdict_fields
from monitor.api.alarms import MAX_PAGE, add_alarms
from monitor.api.incidents import acknowledged, incident_page
from monitor.api.parameters import Cursor, ShortText
from monitor.api.register import add_register
from monitor.api.services import ConsoleServices
from monitor.api.views import incident_row, rule_row

MAX_RULE_BYTES = 64 * 1024
ISSUER = "console"
TOO_LARGE = f"a rule has at most {MAX_RULE_BYTES} bytes"


class NewRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person or script sends to put a rule; who and when we know ourselves. `where`: a tree,
    or its text."""

    name: str
    match: dict[str, list[str]] = {}
    where: Expression | str = ""
    kind: MatchedKind = USUAL_KIND
    severity: Literal["info", "warning", "critical"] = "warning"
    valid_from_ms: int = 0
    valid_until_ms: int = 0
    quiet_s: int = USUAL_QUIET_S
    note: str = ""
    rule_id: str = ""
    seen_version: int = ANY_VERSION
    emergency_hours: int = 0
    reason: str = ""
    case: str = ""
    visible_to: list[str] = []
    target: str = ""


class CommandEnvelope(TypedDict):
    version: int
    author: str
    account: str
    issuer: str
    command_id: str
    unit: str


def put_command(services: ConsoleServices, rule: NewRule, who: ConsolePrincipal) -> WatchCommand:
    """The command that puts a rule, new or changed. Raises `RuleError` for a text that is none."""
    rule_id = rule.rule_id or f"w-{secrets.token_hex(6)}"
    fields = {f: getattr(rule, f) for f in rule.__struct_fields__ if f != "rule_id"}
    fields["where"] = parsed_where(rule.kind, rule.where, services.site.zone)
    return WatchCommand(rule_id=rule_id, op="put", **envelope(who), **fields)


def remove_command(
    services: ConsoleServices,
    rule_id: str,
    who: ConsolePrincipal,
    seen_version: int = ANY_VERSION,
    reason: str = "",
) -> WatchCommand | None:
    """The command that takes a rule off; None when no such rule that he sees is in force."""
    known = services.live_for(who.viewer).rule(rule_id)
    if known is None or known.op != "put":
        return None
    return WatchCommand(
        rule_id=rule_id, op="remove", kind=known.kind, name=known.name, severity=known.severity,
        match=known.match, seen_version=seen_version, reason=reason, visible_to=known.visible_to,
        **envelope(who),
    )  # fmt: skip


def envelope(who: ConsolePrincipal) -> CommandEnvelope:
    """Who asks now, under an id of its own."""
    return CommandEnvelope(
        version=now_ms(), author=who.name, account=who.name, issuer=ISSUER,
        command_id=new_command_id(), unit=who.viewer.unit,
    )  # fmt: skip


def operation_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")
    add_alarms(router, services)
    _add_incidents(router, services)
    _add_acknowledgements(router, services)
    add_register(router, services)
    _add_watch_list(router, services)
    return router


def _add_incidents(router: APIRouter, services: ConsoleServices) -> None:
    """A page of incidents."""
    zone = services.site.tz

    @router.get("/incidents", dependencies=[VIEW])
    async def incidents(
        open_only: bool = False,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        page = await incident_page(
            services, PageRequest(limit=limit, cursor=cursor), open_only=open_only
        )
        register, who = services.register.read(), await acknowledged(services)
        rows = [
            incident_row(one, register, zone) | {"acknowledged_by": who.get(one.incident_id, "")}
            for one in page.incidents
        ]
        return json_response({"rows": rows, "cursor": page.cursor, "away": page.away})


def _add_acknowledgements(router: APIRouter, services: ConsoleServices) -> None:
    """Somebody takes an alarm or an incident in hand: it is not escalated any more."""
    acknowledgements = services.acknowledgements

    @router.post("/acknowledgements/{name:path}")
    async def acknowledge(
        name: str, who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))]
    ) -> Response:
        if await is_hidden_alarm(services, who.viewer, name):
            return json_response({"id": name, "acknowledged_by": who.name}, 201)  # as of no alarm
        try:
            found = await asyncio.to_thread(acknowledgements.add, name, who.name, now_ms())
        except AcknowledgementsUnavailable as error:
            raise HTTPException(503, str(error)) from error
        return json_response({"id": name, "acknowledged_by": found}, 201)


def _add_watch_list(router: APIRouter, services: ConsoleServices) -> None:
    """The rules in force; put one, take one off."""

    @router.get("/watch")
    async def watch(
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_READ))],
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        live, zone = services.live_for(who.viewer), services.site.tz
        try:
            page = live.rule_page(now_ms(), limit=limit, cursor=cursor)
        except ValueError as error:
            raise HTTPException(422, f"cursor: {error}") from error
        hits = live.hits()
        judged = await verdicts_by_rule(services)
        return json_response(
            {
                "rows": [
                    rule_row(r, zone)
                    | {"hits": hits[r.rule_id]}
                    | verdict_fields(judged.get(r.rule_id) or RuleVerdicts(r.rule_id, 0, 0))
                    for r in page.rules
                ],
                "cursor": page.cursor,
                "count": live.rule_count(now_ms()),
                "attributes": MATCHABLE,
                "away": services.hub.unavailable,
            }
        )

    @router.post("/watch")
    async def put(
        request: Request,
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))],
    ) -> Response:
        rule = await read_json(request, NewRule, MAX_RULE_BYTES, TOO_LARGE)
        sent = await services.send_rule(put_command(services, rule, who))
        row = rule_row(sent.command, services.site.tz) | {"waits": sent.waits}
        return json_response(row, 202 if sent.waits else 201)

    @router.delete("/watch/{rule_id:path}")
    async def remove(
        rule_id: str,
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))],
        seen_version: int = ANY_VERSION,
        reason: ShortText = "",
    ) -> Response:
        command = remove_command(services, rule_id, who, seen_version, reason)
        if command is None:
            raise HTTPException(404, "no such rule in force")
        sent = await services.send_rule(command)
        return json_response(rule_row(sent.command, services.site.tz))
