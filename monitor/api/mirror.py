"""The mirror of this site, asked over HTTP: it may run on another machine, best at the other site.

In: `[console] mirror`. Out: `MirrorReport`, or why there is none. Never: an import of `dr_mirror`;
its page says what its states mean, in both languages.
"""

from __future__ import annotations

import httpx
import msgspec
from fastapi import APIRouter, Depends, Response

from bus.contracts.mirror_status import MirrorReport
from bus.security.page_token import bearer_headers
from monitor.accounts.roles import ConsoleOperation
from monitor.api.access import allow, json_response
from monitor.api.services import ConsoleServices
from monitor.http_client import http_client
from monitor.models.mirror_view import api_view

TIMEOUT_S = 3.0
MAX_REPLY_BYTES = 16 << 20
"""A thousand partitions are half a megabyte."""
STATUS_PATH = "/status"


class MirrorUnavailable(Exception):
    """There is no report. `is_configured` False: this console was told of no mirror."""

    def __init__(self, why: str, *, is_configured: bool = True) -> None:
        super().__init__(why)
        self.is_configured = is_configured


async def mirror_report(url: str, token: str = "") -> MirrorReport:
    """Ask the mirror at `url`; `token` is what its pages ask for. Raises MirrorUnavailable."""
    if not url:
        raise MirrorUnavailable("console.mirror is empty", is_configured=False)
    try:
        async with http_client(TIMEOUT_S, headers=bearer_headers(token)) as client:
            reply = await client.get(url.rstrip("/") + STATUS_PATH)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise MirrorUnavailable(f"{url}: {type(error).__name__}: {error}".rstrip(": ")) from None
    if not reply.is_success or len(reply.content) > MAX_REPLY_BYTES:
        raise MirrorUnavailable(f"{url}: HTTP {reply.status_code}")
    try:
        found = msgspec.json.decode(reply.content, type=MirrorReport | None)
    except msgspec.MsgspecError as error:
        raise MirrorUnavailable(f"{url}: {error}") from None
    if found is None:
        raise MirrorUnavailable(f"{url}: one of both clusters has not answered yet")
    return found


def mirror_routes(services: ConsoleServices) -> APIRouter:
    """`/api/mirror`."""
    router = APIRouter()
    bus = Depends(allow(ConsoleOperation.BUS_READ))

    @router.get("/api/mirror", dependencies=[bus])
    async def mirror() -> Response:
        try:
            report = await mirror_report(services.console.mirror, services.page_token)
            return json_response(api_view(report))
        except MirrorUnavailable as error:
            status = 503 if error.is_configured else 404
            return json_response({"detail": str(error)}, status)

    return router
