"""Which senders edges refuse or warn, asked over HTTP.

In: the edges of `[console] health`. Out: what each says, and which did not answer. Never: a
redirect followed, a proxy used; a page that waits longer than `TIMEOUT_S`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx
import msgspec
from fastapi import APIRouter, Response

from bus.contracts.sender_faults import SENDERS_PATH, RefusedPeer, SenderFaults, WarnedDevice
from monitor.api.access import VIEW, json_response
from monitor.api.services import ConsoleServices
from monitor.http_client import http_client
from monitor.settings import ConsoleSettings

TIMEOUT_S = 3.0
MAX_REPLY_BYTES = 4 << 20
HEALTH = "/healthz"


@dataclass(frozen=True, slots=True)
class SendersOfEdges:
    """By edge; `away` says why one has no row."""

    refused: list[tuple[str, RefusedPeer]] = field(default_factory=list)
    warned: list[tuple[str, WarnedDevice]] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)


def edge_addresses(console: ConsoleSettings) -> dict[str, str]:
    """`edge`, `edge-2` and so on -> where each answers."""
    return {
        name: url.removesuffix(HEALTH).rstrip("/")
        for name, url in console.health.items()
        if url and (name == "edge" or name.startswith("edge-"))
    }


async def senders_of_edges(console: ConsoleSettings) -> SendersOfEdges:
    """Ask all of them at once."""
    addresses, found = edge_addresses(console), SendersOfEdges()
    headers = {"Authorization": f"Bearer {console.edge_token}"} if console.edge_token else {}
    async with http_client(TIMEOUT_S, headers=headers) as client:
        answers = await asyncio.gather(*(_ask(client, url) for url in addresses.values()))
    for name, answer in zip(addresses, answers, strict=True):
        if isinstance(answer, str):
            found.away[name] = answer
        else:
            found.refused.extend((name, one) for one in answer.refused)
            found.warned.extend((name, one) for one in answer.warned)
    found.refused.sort(key=lambda one: -one[1].last_ms)
    found.warned.sort(key=lambda one: -one[1].last_ms)
    return found


async def _ask(client: httpx.AsyncClient, url: str) -> SenderFaults | str:
    """What it says, or why it does not."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reply = await client.get(url + SENDERS_PATH)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    if not reply.is_success or len(reply.content) > MAX_REPLY_BYTES:
        return f"HTTP {reply.status_code}"
    try:
        return msgspec.json.decode(reply.content, type=SenderFaults)
    except msgspec.MsgspecError as error:
        return str(error)


def sender_routes(services: ConsoleServices) -> APIRouter:
    """`/api/senders`."""
    router = APIRouter()

    @router.get("/api/senders", dependencies=[VIEW])
    async def senders() -> Response:
        found = await senders_of_edges(services.console)
        return json_response(
            {
                "refused": [{"edge": e, **msgspec.to_builtins(row)} for e, row in found.refused],
                "warned": [{"edge": e, **msgspec.to_builtins(row)} for e, row in found.warned],
                "away": found.away,
            }
        )

    return router
