"""What a route declares about itself: the one operation it needs; and responses as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import Depends, HTTPException, Request, Response

from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal, authorise


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


def json_response(body: Any, status: int = 200) -> Response:
    """JSON by msgspec, never cached."""
    return Response(
        msgspec.json.encode(body), status, {"Cache-Control": "no-store"}, "application/json"
    )
