"""What a route declares about itself: the one operation it needs; bodies with a bound; responses
as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, TypeVar

import msgspec
from fastapi import Depends, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal, authorise

Body = TypeVar("Body")

PIECE_BYTES = 256 << 10


def principal_of(request: Request) -> ConsolePrincipal:
    """Who asks. A route behind the guard always has one."""
    principal: ConsolePrincipal | None = request.scope.get("state", {}).get("principal")
    if principal is None:
        raise HTTPException(401, "log in first")
    return principal


def allow(operation: ConsoleOperation) -> Callable[[Request], ConsolePrincipal]:
    """A dependency: the principal if it may, else 403."""

    def check(request: Request) -> ConsolePrincipal:
        principal = principal_of(request)
        if not authorise(principal, operation, request.url.path):
            raise HTTPException(403, f"{principal.name} may not: {operation.value}")
        return principal

    check.operation = operation  # type: ignore[attr-defined]  # read by the test that walks all routes
    return check


VIEW = Depends(allow(ConsoleOperation.VIEW))
"""What most routes need."""
Viewing = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.VIEW))]
"""The same, of a route whose answer depends on who asks."""


async def read_body(request: Request, most: int, too_large: str) -> bytes:
    """The whole body; 413 with this text where it has more than so many bytes, before they come."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, too_large)
    return bytes(body)


async def read_json(request: Request, form: type[Body], most: int, too_large: str) -> Body:
    """The body as what it must be. Raises msgspec's errors, which the API answers."""
    body = await read_body(request, most, too_large)
    try:
        return msgspec.json.decode(body, type=form)
    except RecursionError as error:
        raise HTTPException(400, "nested too deeply") from error


def large_response(text: bytes, **headers: str) -> Response:
    """JSON that may be some megabytes, in pieces: between two of them others have their turn.
    Who makes such a text makes it in a thread."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in in_pieces(text):
            yield piece

    sent = {"Cache-Control": "no-store", "Content-Length": str(len(text)), **headers}
    return StreamingResponse(pieces(), headers=sent, media_type="application/json")


def in_pieces(text: bytes) -> Iterator[bytes]:
    """What a server writes in one turn of its loop, each."""
    for begin in range(0, len(text), PIECE_BYTES):
        yield text[begin : begin + PIECE_BYTES]


def json_response(body: object, status: int = 200) -> Response:
    """JSON by msgspec, never cached."""
    return Response(
        msgspec.json.encode(body), status, {"Cache-Control": "no-store"}, "application/json"
    )
