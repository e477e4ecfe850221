"""What edges of the other site and a switch ask: what this site holds, what was sent again."""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from bus.client.kafka.mirrored_ends import mirrored_ends as ends_of
from bus.errors import BusError
from ingest.edge.caller import Caller
from ingest.edge.edge import Edge
from ingest.edge.problems import json_response, problem
from ingest.edge.sites.sent_again_file import read_sent_again
from ingest.edge.sites.site_route import HOME

MAX_CLUSTER_ID = 100
ENDS_TIMEOUT_S = 25.0


async def mirrored_ends(edge: Edge, request: Request, caller: Caller) -> Response:
    """`GET /v1/mirrored-ends?source=…`: what this site's bus holds of that cluster's records.

    One question to the brokers at a time. It is asked by edges of that site when it is lost.
    """
    source = request.query_params.get("source", "")[:MAX_CLUSTER_ID]
    bus = edge.route.bus(HOME)
    try:
        async with edge.asking_ends, asyncio.timeout(ENDS_TIMEOUT_S):
            found = await asyncio.to_thread(ends_of, bus, source)
    except (BusError, TimeoutError) as error:
        text = f"the brokers do not answer: {error}"
        return problem(503, "no-bus", text, "消息总线无响应。")
    return json_response(found, 200)


async def sent_again(edge: Edge, request: Request, caller: Caller) -> Response:
    """`GET /v1/sent-again?former=…`: what a move away from that cluster sent to the other one.

    204: there was none.
    """
    former = request.query_params.get("former", "")[:MAX_CLUSTER_ID]
    found = await asyncio.to_thread(read_sent_again, edge.route.folder, former)
    return Response(status_code=204) if found is None else json_response(found, 200)
