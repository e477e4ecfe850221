"""The outer application: authentication first, then the API; pages are mounted behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bus.contracts.command_codes import (
    ALREADY_TAKEN,
    BY_SOMEBODY,
    NO_PROPOSAL,
    NO_SUCH_ALARM,
    NO_SUCH_LIST,
    NO_SUCH_RULE,
    OTHER_STAGE,
)
from bus.domain.command_error import CommandError
from bus.domain.rule_check import RuleError
from bus.domain.rule_preview import InvalidWindow
from bus.errors import BusError, ErrorCode
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from bus.runtime import tasks
from bus.runtime.tasks import RequestFailureReporter
from ingest.store.port import InvalidCursor
from monitor.accounts.errors import AccountsUnavailable
from monitor.api.access import json_response
from monitor.api.accounts import account_routes
from monitor.api.alarm_life import AlarmConflict
from monitor.api.asking import question_routes
from monitor.api.auth import AuthMiddleware
from monitor.api.cases import case_routes
from monitor.api.charts import chart_routes
from monitor.api.evidence import evidence_routes
from monitor.api.face_search import face_search_routes
from monitor.api.list_changes import list_change_routes
from monitor.api.list_proposals import list_proposal_routes
from monitor.api.login import SessionEnded, login_routes
from monitor.api.mirror import mirror_routes
from monitor.api.operations import operation_routes
from monitor.api.parameters import only_known
from monitor.api.plate_lists import plate_list_routes
from monitor.api.platform import platform_routes
from monitor.api.pool import QueryUnavailable
from monitor.api.preview import preview_routes
from monitor.api.proposals import proposal_routes
from monitor.api.records import record_routes
from monitor.api.sender_faults import sender_routes
from monitor.api.services import ConsoleServices
from monitor.api.topic_orders import topic_order_routes
from monitor.cluster.bus_overview import BusUnavailable
from monitor.http_client import prepare
from monitor.live.command_sender import (
    CommandNotAcknowledged,
    CommandRefused,
    CommandUnanswered,
)
from monitor.questions.question_log import QuestionsUnavailable

NO_ANSWER = "No response returned."  # Starlette's words
_STATUS_OF_BROKERS = {
    ErrorCode.TOPIC_ALREADY_EXISTS: 409, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
}  # fmt: skip


def create_api(services: ConsoleServices, ended: SessionEnded = lambda _: None) -> FastAPI:
    """API, log-in and guard. Its lifespan runs the hub."""
    app = FastAPI(
        title="surveillance-data-bus",
        lifespan=_lifespan(services),
        dependencies=[Depends(only_known)],
        docs_url=None,
        redoc_url=None,  # their pages load scripts from another host
    )
    for routes in (
        login_routes(services, ended),
        record_routes(services),
        face_search_routes(services),
        chart_routes(services),
        operation_routes(services),
        preview_routes(services),
        case_routes(services),
        proposal_routes(services),
        question_routes(services),
        plate_list_routes(services),
        list_change_routes(services),
        list_proposal_routes(services),
        topic_order_routes(services),
        evidence_routes(services),
        platform_routes(services),
        mirror_routes(services),
        sender_routes(services),
        account_routes(services),
    ):
        app.include_router(routes)
    _register_error_handlers(app)
    app.add_middleware(
        AuthMiddleware, sessions=services.sessions, passwords=services.passwords,
        page_token=services.page_token,
    )  # fmt: skip
    app.add_middleware(  # added later = further out: the guard finds the cookie read
        SessionCookie,
        secret_key=services.secret,
        session_cookie="databus_console",
        same_site="lax",
        max_age=services.console.session_hours * 3600,
    )
    app.add_middleware(LeftRequests)
    app.add_middleware(RequestFailureReporter, failures=services.failures)
    return app


class LeftRequests:
    """A browser that leaves before its answer is no error. Starlette's base middleware, which
    NiceGUI uses, makes one of it, and the server a page of traceback.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_left = False

        async def receive_noting_end() -> Message:
            nonlocal has_left
            message = await receive()
            has_left = has_left or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, receive_noting_end, send)
        except RuntimeError as error:
            if not has_left or str(error) != NO_ANSWER:
                raise


class SessionCookie:
    """The signed cookie; marked `Secure` where the request came by TLS, through a trusted proxy."""

    def __init__(self, app: ASGIApp, /, **options: Any) -> None:
        self._plain = SessionMiddleware(app, **options)
        self._secure = SessionMiddleware(app, https_only=True, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        by_tls = scope.get("scheme") in ("https", "wss")
        await (self._secure if by_tls else self._plain)(scope, receive, send)


def _lifespan(services: ConsoleServices) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(prepare)
        work = [
            tasks.spawn(services.hub.run(), name="console-hub"),
            tasks.spawn(services.kpis.run(), name="console-kpis"),
            tasks.spawn(services.waiting_lists.run(), name="console-waiting-lists"),
            tasks.spawn(services.poller.run(), name="console-cluster"),
            tasks.spawn(services.watch.run(), name="console-watch"),
        ]
        services.background.extend(work)
        services.register.start()
        if services.site_accounts is not None:
            services.site_accounts.start()
        try:
            yield
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)  # what they end with has been reported
            await asyncio.to_thread(services.register.close)
            if services.site_accounts is not None:
                await asyncio.to_thread(services.site_accounts.close)
            services.commands.close()
            services.records.close()
            services.alarms.close()
            services.lists.close()
            services.previews.close()
            services.account_writes.close()
            services.account_store.close()

    return lifespan


def _register_error_handlers(app: FastAPI) -> None:
    """One place where typed errors become responses."""

    def on(
        error: type[Exception], status: int, field: Callable[[Exception], str] | None = None
    ) -> None:
        async def handler(_: Request, raised: Exception) -> Response:
            body: dict[str, str | int] = {"error": str(raised)}
            if field is not None:
                body["field"] = field(raised)
            if isinstance(raised, RuleError) and raised.column:
                body["column"] = raised.column
            return json_response(body, status)

        app.add_exception_handler(error, handler)

    on(AccountsUnavailable, 503)
    on(QueryUnavailable, 503)
    on(BusUnavailable, 503)
    on(CommandNotAcknowledged, 503)
    on(CommandUnanswered, 504)
    app.add_exception_handler(CommandRefused, _refused)
    on(QuestionsUnavailable, 503)
    app.add_exception_handler(BusError, _refused_by_brokers)
    app.add_exception_handler(AlarmConflict, _taken)
    app.add_exception_handler(CommandError, _not_asked)
    on(AcknowledgementsUnavailable, 503)
    on(RuleError, 422, lambda e: getattr(e, "field", ""))
    on(InvalidCursor, 422)
    on(InvalidWindow, 422)
    on(msgspec.ValidationError, 422)
    on(msgspec.DecodeError, 400)
    on(UnicodeDecodeError, 400)


async def _refused(_: Request, raised: Exception) -> Response:
    """What the site's decider said; of a rule that was changed meanwhile, by whom and when."""
    if not isinstance(raised, CommandRefused):
        raise raised
    answer = raised.answer
    body: dict[str, object] = {
        "error": answer.text, "field": answer.field, "code": answer.code,
    }  # fmt: skip
    if answer.code in BY_SOMEBODY:
        body |= {
            "version": answer.version, "changed_by": answer.changed_by,
            "changed_at_ms": answer.changed_at_ms,
        }  # fmt: skip
    return json_response(body, _status(answer.code))


def _status(code: str) -> int:
    if code in BY_SOMEBODY or code in OTHER_STAGE:
        return 409
    missing = (NO_SUCH_RULE, NO_SUCH_LIST, NO_SUCH_ALARM, NO_PROPOSAL)
    return 404 if code in missing else 422


async def _taken(_: Request, raised: Exception) -> Response:
    """By somebody else, while the decider was away."""
    if not isinstance(raised, AlarmConflict):
        raise raised
    state = raised.state
    body = {
        "error": str(raised), "field": "op", "code": ALREADY_TAKEN, "version": state.n,
        "changed_by": state.owner, "changed_at_ms": state.in_hand_since_ms,
    }  # fmt: skip
    return json_response(body, 409)


async def _refused_by_brokers(_: Request, raised: Exception) -> Response:
    """A request that may be right a moment later is 503, any other one 422."""
    if not isinstance(raised, BusError):
        raise raised
    body = {"error": str(raised), "field": "", "code": raised.code.name.lower()}
    usual = 503 if raised.retriable else 422
    return json_response(body, _STATUS_OF_BROKERS.get(raised.code, usual))


async def _not_asked(_: Request, raised: Exception) -> Response:
    """What cannot be asked of the decider, and a question without the reason it needs."""
    if not isinstance(raised, CommandError):
        raise raised
    body = {"error": str(raised), "field": raised.field, "code": raised.code}
    return json_response(body, _status(raised.code))
