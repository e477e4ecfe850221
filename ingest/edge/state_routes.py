"""What an edge says of itself: whether it lives, its metrics, its numbers, whom it refused."""

from __future__ import annotations

from fastapi import Request, Response

from bus.contracts.sender_faults import SenderFaults
from bus.runtime import wall_clock
from ingest.edge.caller import Caller, EdgePermission, authorise
from ingest.edge.edge import Edge
from ingest.edge.problems import json_response

MAX_SENDERS = 500  # rows of a page


async def healthz(edge: Edge, request: Request, caller: Caller) -> Response:
    """200 as long as records can be taken and are being carried. Anybody may ask: why it is not,
    the log says."""
    ok = edge.forwarder.alive
    return json_response({"status": "ok" if ok else "stopped"}, 200 if ok else 503)


async def metrics(edge: Edge, request: Request, caller: Caller) -> Response:
    """Prometheus' text format; who may not read gets it without the devices' addresses."""
    text = edge.meters.text(with_devices=authorise(caller, EdgePermission.READ))
    return Response(text, media_type="text/plain; version=0.0.4")


async def status(edge: Edge, request: Request, caller: Caller) -> Response:
    """The account's numbers, and beside them what was refused; addresses for readers only."""
    groups = edge.refusals.table.groups(
        wall_clock.now_ms(), with_peers=authorise(caller, EdgePermission.READ)
    )
    refused = {
        "requests": edge.refusals.count,
        "kept": edge.refusals.retained,
        "groups": groups,
    }
    return json_response(edge.meters.status() | {"refused": refused}, 200)


async def senders(edge: Edge, request: Request, caller: Caller) -> Response:
    """`GET /v1/senders`: who was refused or warned of what, the newest first."""
    now_ms = wall_clock.now_ms()
    found = SenderFaults(
        since_ms=edge.refusals.since_ms,
        groups=edge.refusals.table.groups(now_ms, with_peers=True),
        refused=edge.refusals.table.peers(now_ms, MAX_SENDERS),
        warned=edge.meters.warned.rows(MAX_SENDERS),
    )
    return json_response(found, 200)
