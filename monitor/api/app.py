"""The outer application: guard first, then the API; pages are mounted behind them.

In: services. Out: a FastAPI application. Never: NiceGUI (see `monitor.console`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bus import tasks
from bus.tasks import HeardRequests
from monitor.accounts.errors import AccountsUnavailable
from monitor.api.access import answer
from monitor.api.charts import chart_routes
from monitor.api.guard import Guard
from monitor.api.log_in import SessionEnded, log_in_routes
from monitor.api.operations import operation_routes
from monitor.api.platform import platform_routes
from monitor.api.pool import Away
from monitor.api.records import record_routes
from monitor.api.services import Services
from monitor.hub.cluster import BusAway
from monitor.hub.commands import CommandLost
from monitor.hub.rules import RuleError


def create_api(services: Services, ended: SessionEnded = lambda _: None) -> FastAPI:
    """API, log-in and guard. Its lifespan runs the hub."""
    app = FastAPI(
        title="surveillance-data-bus",
        lifespan=_lifespan(services),
        docs_url=None,
        redoc_url=None,  # their pages load scripts from another host
    )
    for routes in (
        log_in_routes(services, ended),
        record_routes(services),
        chart_routes(services),
        operation_routes(services),
        platform_routes(services),
    ):
        app.include_router(routes)
    _tell_faults(app)
    app.add_middleware(Guard, sessions=services.sessions, passwords=services.passwords)
    app.add_middleware(  # added later = further out: the guard finds the cookie read
        SessionCookie,
        secret_key=services.secret,
        session_cookie="databus_console",
        same_site="lax",
        max_age=services.console.session_hours * 3600,
    )
    app.add_middleware(HeardRequests, failures=services.failures)
    return app


class SessionCookie:
    """The signed cookie; marked `Secure` where the request came by TLS, through a trusted proxy."""

    def __init__(self, app: ASGIApp, /, **options: Any) -> None:
        self._plain = SessionMiddleware(app, **options)
        self._secure = SessionMiddleware(app, https_only=True, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        by_tls = scope.get("scheme") in ("https", "wss")
        await (self._secure if by_tls else self._plain)(scope, receive, send)


def _lifespan(services: Services) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        work = [
            tasks.spawn(services.hub.run(), name="console-hub"),
            tasks.spawn(services.kpis.run(), name="console-kpis"),
            tasks.spawn(services.watcher.run(), name="console-cluster"),
        ]
        services.background.extend(work)
        try:
            yield
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)  # what they end with has been reported
            services.commands.close()
            services.records.close()
            services.alarms.close()
            services.account_writes.close()
            services.account_store.close()

    return lifespan


def _tell_faults(app: FastAPI) -> None:
    """One place where typed errors become answers."""

    def on(
        error: type[Exception], status: int, field: Callable[[Exception], str] | None = None
    ) -> None:
        async def handler(_: Request, raised: Exception) -> Response:
            body = {"error": str(raised)}
            if field is not None:
                body["field"] = field(raised)
            return answer(body, status)

        app.add_exception_handler(error, handler)

    on(AccountsUnavailable, 503)
    on(Away, 503)
    on(BusAway, 503)
    on(CommandLost, 503)
    on(RuleError, 422, lambda e: getattr(e, "field", ""))
    on(msgspec.ValidationError, 422)
    on(msgspec.DecodeError, 400)
    on(UnicodeDecodeError, 400)
