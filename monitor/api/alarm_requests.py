"""Routes by which an operator takes, gives, judges, comments on and ends an alarm."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from bus.contracts.alarm_states import AlarmOp, AlarmRequest, AlarmResult, FalseReason
from bus.contracts.commands import ANY_VERSION
from bus.domain.alarm_life import OPS
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_body
from monitor.api.alarm_life import ask
from monitor.api.alarm_views import life_detail
from monitor.api.services import ConsoleServices

MAX_BYTES = 8 * 1024
TOO_LARGE = f"a request about an alarm has at most {MAX_BYTES} bytes"


class AlarmRequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person or script says; who and when we know ourselves. All of it may be left out."""

    to: str = ""
    why: FalseReason = ""
    result: AlarmResult = ""
    text: str = ""
    reason: str = ""
    case: str = ""
    seen_version: int = ANY_VERSION


_decode = msgspec.json.Decoder(AlarmRequestBody).decode


def add_alarm_requests(router: APIRouter, services: ConsoleServices) -> None:
    """One for each thing that may be asked for."""
    for op in OPS:
        _add_request(router, services, op)


def _add_request(router: APIRouter, services: ConsoleServices, op: AlarmOp) -> None:
    @router.post(f"/alarms/{{alarm_id:path}}/{op}", name=f"alarm_{op}")
    async def request_alarm(
        alarm_id: str,
        request: Request,
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))],
    ) -> Response:
        body = await read_body(request, MAX_BYTES, TOO_LARGE)
        said = _decode(body) if body.strip() else AlarmRequestBody()
        fields = msgspec.structs.asdict(said)
        done = await ask(
            services, who.viewer,
            AlarmRequest(alarm_id=alarm_id, op=op, account=who.name, **fields),
        )  # fmt: skip
        state = life_detail(done.state, services.site.tz)
        return json_response({"alarm_id": alarm_id, "outcome": done.outcome, **state})
