"""The edge's HTTP surface: its routes, who may use them, what is answered to what is refused.

What a record is, `admission` knows; how it is taken, `Edge`. Answers only after the spool's fsync,
and refuses no well-formed record below the spool's bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bus.contracts.sender_faults import SENDERS_PATH
from bus.domain.kinds import COMMON_KIND, KINDS
from bus.runtime.tasks import RequestFailureReporter
from ingest.edge import picture_routes, record_routes, site_routes, state_routes
from ingest.edge.body_start import BodyStart
from ingest.edge.caller import Caller, EdgePermission, authenticate, authorise
from ingest.edge.edge import Edge
from ingest.edge.problems import (
    REFUSED_AS_A_WHOLE,
    ProblemResponse,
    denied,
    no_such_route,
    problem,
    refusal,
)
from ingest.edge.refusals import RefusedRequest
from ingest.edge.request import body_start
from ingest.normalise.foreign import maker_of, maker_of_path

SENDING_METHODS = frozenset({"POST", "PUT", "PATCH"})
# Not the sender's fault: it tries again, and what is full or away is told elsewhere.
_NOT_REFUSED = frozenset({HTTPStatus.SERVICE_UNAVAILABLE})
CLIENT_LEFT = 499  # nginx's number; the client has left, so it is never read

_Handler = Callable[[Edge, Request, Caller], Awaitable[Response]]

ROUTES: tuple[tuple[str, str, _Handler, EdgePermission], ...] = (
    ("POST", "/v1/records/{kind}", record_routes.records, EdgePermission.SEND),
    ("POST", "/v1/counters", record_routes.counters, EdgePermission.SEND),
    ("PUT", "/v1/pictures/{name}", picture_routes.put_picture, EdgePermission.SEND),
    ("GET", "/pictures/{name:path}", picture_routes.get_picture, EdgePermission.READ),
    ("PUT", "/pictures/{name:path}", picture_routes.copy_picture, EdgePermission.COPY),
    ("GET", "/healthz", state_routes.healthz, EdgePermission.PROBE),
    ("GET", "/metrics", state_routes.metrics, EdgePermission.PAGE),
    ("GET", "/v1/status", state_routes.status, EdgePermission.PAGE),
    ("GET", SENDERS_PATH, state_routes.senders, EdgePermission.READ),
    ("GET", "/v1/mirrored-ends", site_routes.mirrored_ends, EdgePermission.PAGE),
    ("GET", "/v1/sent-again", site_routes.sent_again, EdgePermission.PAGE),
)


def create_app(edge: Edge) -> FastAPI:
    """The routes; each passes `_authorized`, the one place of authentication and of errors'
    answers."""
    app = FastAPI(
        title="surveillance data bus: edge", docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,  # a POST that is sent elsewhere is followed by few clients
    )  # fmt: skip
    app.add_middleware(RequestFailureReporter, failures=edge.meters.failures)
    for method, path, handler, permission in ROUTES:
        app.add_route(path, _authorized(edge, handler, permission), methods=[method])
    app.add_exception_handler(HTTPException, _unrouted(edge))
    return app


def _unrouted(edge: Edge) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await _with_trace(edge, request, no_such_route(request, error, _sending()))

    return unrouted


def _sending() -> str:
    """Where records go, as a refusal names it."""
    rows = [(m, p) for m, p, _, permission in ROUTES if permission is EdgePermission.SEND]
    return ", ".join(f"{m} {p}" for m, p in rows)


def _authorized(
    edge: Edge, handler: _Handler, permission: EdgePermission
) -> Callable[[Request], Awaitable[Response]]:
    settings = edge.settings
    tokens = settings.tokens, settings.reader_tokens, settings.mirror_tokens, edge.page_token

    async def authorized(request: Request) -> Response:
        address = request.client.host if request.client else ""
        caller = authenticate(request.headers, address, *tokens)
        response = await answer(request, caller)
        is_mirror = authorise(caller, EdgePermission.COPY)
        return await _with_trace(edge, request, response, is_mirror=is_mirror)

    async def answer(request: Request, caller: Caller) -> Response:
        if not authorise(caller, permission):
            return denied(caller, permission)
        if request.path_params.get("kind", COMMON_KIND) not in KINDS:
            known = ", ".join(KINDS)
            text, text_zh = f"records are one of {known}", f"未知的记录类别；应为 {known}。"
            return problem(404, "unknown-kind", text, text_zh)
        with edge.meters.answer_seconds.time():
            return await _handle(edge, handler, request, caller)

    return authorized


async def _handle(edge: Edge, handler: _Handler, request: Request, caller: Caller) -> Response:
    try:
        return await handler(edge, request, caller)
    except ClientDisconnect:
        edge.meters.abandoned.inc()
        return Response(status_code=CLIENT_LEFT)
    except REFUSED_AS_A_WHOLE as error:
        return refusal(error, edge.settings)


async def _with_trace(
    edge: Edge, request: Request, response: Response, *, is_mirror: bool = False
) -> Response:
    """The same answer, after its refusal has been noted and the beginning of its body kept. What
    is left of the body is read: a connection that is closed over unread bytes is reset, and its
    sender then never sees the answer."""
    if not isinstance(response, ProblemResponse) or response.status_code in _NOT_REFUSED:
        return response
    start, sends = body_start(request), request.method in SENDING_METHODS
    await _discard_body(request, 2 * edge.settings.max_body_bytes, start)
    refused = RefusedRequest(
        reason=response.reason,
        maker=response.maker or maker_of(start.data) or maker_of_path(request.url.path),
        peer=request.client.host if request.client else "",
        request=f"{request.method} {request.url.path}",
        could_be_record=sends and not is_mirror,
    )
    edge.refusals.note(refused, response.text)
    if refused.could_be_record:
        await edge.refusals.keep(refused, start)
    return response


async def _discard_body(request: Request, most: int, start: BodyStart) -> None:
    """What still comes of a body that is refused, up to `most` bytes; `start` sees it."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return  # it waits with its body until it is asked for
    with contextlib.suppress(ClientDisconnect, RuntimeError):  # all of it may have been read
        async for chunk in request.stream():
            start.feed(chunk)
            most -= len(chunk)
            if most < 0:
                return
