"""Where records and producers' counters enter."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from bus.contracts import headers, topics
from bus.contracts.meters import Sent
from bus.domain.kinds import KINDS
from bus.runtime import wall_clock
from ingest.edge.body_forms import posted_records
from ingest.edge.caller import Caller
from ingest.edge.edge import Edge
from ingest.edge.problems import bad_counter, json_response
from ingest.edge.request import body_start, read_body
from ingest.edge.responses import records_response, status_of
from ingest.spool import SpoolEntry

_SENT_LIST = msgspec.json.Decoder(list[Sent])
_SENT = msgspec.json.Decoder(Sent)


async def records(edge: Edge, request: Request, caller: Caller) -> Response:
    """`POST /v1/records/{kind}`."""
    body = await read_body(request, edge.settings.max_body_bytes, body_start(request))
    content_type = request.headers.get("content-type", "")
    posted = posted_records(body, content_type, request.path_params["kind"])
    admitted = await edge.accept(posted, edge.request_info(request, caller))
    response = records_response(admitted, edge.site.zone)
    return json_response(response, status_of(response))


async def counters(edge: Edge, request: Request, caller: Caller) -> Response:
    """`POST /v1/counters`: what producers say they sent."""
    body = await read_body(request, edge.settings.max_body_bytes, body_start(request))
    is_list = body.lstrip()[:1] == b"["
    try:
        counters = _SENT_LIST.decode(body) if is_list else [_SENT.decode(body)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return bad_counter(str(error))
    strange = next((c.kind for c in counters if c.kind not in KINDS), None)
    if strange is not None:
        return bad_counter(f"kind is one of {', '.join(KINDS)}, not {strange!r}")
    now_ms = wall_clock.now_ms()
    await edge.spool.append([_counter(c, caller, edge.site.name, now_ms) for c in counters])
    return json_response({"accepted": len(counters)}, 200)


def _counter(counter: Sent, caller: Caller, site_name: str, now_ms: int) -> SpoolEntry:
    return SpoolEntry(
        topic=topics.METER_SENT,
        key=counter.producer.encode(),
        value=msgspec.json.encode(counter),
        headers=[
            (headers.SCHEMA, topics.TOPICS[topics.METER_SENT].schema.encode()),
            (headers.RECEIVED_AT, str(now_ms).encode()),
            (headers.SOURCE, caller.address.encode()),
            (headers.SITE, site_name.encode()),
        ],
        timestamp_ms=now_ms,
        tally="sent/accepted",
    )
