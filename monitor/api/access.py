"""What a route declares about itself: the one operation it needs; and answers as JSON.

In: a request that passed the guard. Out: its principal, or 403. Never: sessions, passwords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import Depends, HTTPException, Request, Response

from monitor.accounts.roles import Operation, Principal, authorise


def principal_of(request: Request) -> Principal:
    """Who asks. A route behind the guard always has one."""
    principal: Principal | None = request.scope.get("state", {}).get("principal")
    if principal is None:
        raise HTTPException(401, "log in first")
    return principal


def allow(operation: Operation) -> Callable[[Request], Principal]:
    """A dependency: the principal if it may, else 403."""

    def check(request: Request) -> Principal:
        principal = principal_of(request)
        if not authorise(principal, operation, request.url.path):
            raise HTTPException(403, f"{principal.name} may not: {operation.value}")
        return principal

    check.operation = operation  # type: ignore[attr-defined]  # read by the test that walks all routes
    return check


VIEW = Depends(allow(Operation.VIEW))
"""What most routes need."""


def answer(body: Any, status: int = 200) -> Response:
    """JSON by msgspec, never cached."""
    return Response(
        msgspec.json.encode(body), status, {"Cache-Control": "no-store"}, "application/json"
    )
