"""Authenticates every request: HTTP and websocket, API, pages, pictures and scripts alike.

Puts the principal into `scope["state"]["principal"]` before any route runs, or refuses. What a
principal may do, `authorise` decides.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bus.security.page_token import REFUSED, SCHEME, bearer_token, is_one_of
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.login_limiter import Attempt, LoginLimiter, LoginSender, TooManyAttempts
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore

OPEN_PATHS = frozenset({"/healthz", "/login", "/auth/login"})
OPEN_PREFIXES = ("/auth/once/",)
METRICS_PATH = "/metrics"
PAGE_READER = ConsolePrincipal(name="page reader", roles=frozenset({AccountRole.VIEWER}))
"""Who came with the token of the pages: a viewer without a unit, of the page of metrics alone."""
METRICS_REFUSED = f"{REFUSED}, or log in with an account of the console"
# A script asks here, not a person: 401 instead of the way to the log-in page.
_MACHINE_PREFIXES = ("/api/", "/metrics", "/pictures/", "/assets/", "/_nicegui", "/openapi.json")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

JUDGING_THREADS = 2  # scrypt leaves the interpreter's lock; more would starve the console's loop
MAX_KNOWN_CREDENTIALS = 256
CREDENTIAL_LIFETIME_MS = 60_000  # scrypt once a minute per script, not once per request

_HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # NiceGUI evaluates its own inline scripts; what counts is that nothing leaves for another host.
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
        "frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
    ),
}


class Judgement(NamedTuple):
    """A password in a thread."""

    attempt: Attempt
    found: asyncio.Future[ConsolePrincipal | None]


class PasswordCheck:
    """Judges passwords off the loop, in threads of its own, within the limits of `LoginLimiter`;
    remembers right ones for a minute, for scripts that send theirs with every request.
    """

    def __init__(
        self,
        accounts: AccountStore,
        limiter: LoginLimiter,
        now_ms: Callable[[], int],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._accounts = accounts
        self._limiter = limiter
        self._now_ms = now_ms
        self._pause = pause
        self._pepper = os.urandom(32)
        self._known: OrderedDict[bytes, tuple[int, str]] = OrderedDict()
        self._judging: dict[tuple[bytes, str], Judgement] = {}
        self._threads = ThreadPoolExecutor(JUDGING_THREADS, thread_name_prefix="passwords")

    async def principal(
        self, name: str, password: str, sender: LoginSender
    ) -> ConsolePrincipal | None:
        """Who this is, or None if the password is wrong; that may be said late. Raises
        `TooManyAttempts`."""
        now = self._now_ms()
        self._limiter.check(name, sender, now)  # also what is remembered
        mark = hmac.digest(self._pepper, f"{name}\0{password}".encode(), hashlib.sha256)
        account = self._accounts.find(name)
        known = self._known.get(mark)
        if known and known[0] > now and account and account.password == known[1]:
            return account.principal()
        # A script that begins with several requests at once is judged once for all of them.
        judging = self._judging.get((mark, sender.key))
        if judging is None:
            judging = self._judge(name, password, sender, mark)
        # Shielded, because a client that leaves must not free its place while the thread works.
        found = await asyncio.shield(judging.found)
        if found is not None:
            self._remember(name, mark)
        elif held_back_ms := judging.attempt.held_back_ms(self._now_ms()):
            await self._pause(held_back_ms / 1000)
        return found

    def locked(self) -> dict[str, int]:
        """The names that are locked for some address or device, and how many ms yet."""
        return self._limiter.locked(self._now_ms())

    def unlock(self, name: str) -> None:
        """Forget a name's failures."""
        self._limiter.unlock(name)

    def _judge(self, name: str, password: str, sender: LoginSender, mark: bytes) -> Judgement:
        attempt = self._limiter.begin(name, sender, self._now_ms())
        loop = asyncio.get_running_loop()
        judging = loop.run_in_executor(self._threads, self._accounts.verify, name, password)
        made = self._judging[mark, sender.key] = Judgement(attempt, judging)

        def judged(done: asyncio.Future[ConsolePrincipal | None]) -> None:
            del self._judging[mark, sender.key]
            if done.cancelled() or done.exception() is not None:
                self._limiter.unjudged(attempt)
            elif done.result() is None:
                self._limiter.wrong(attempt)
            else:
                self._limiter.right(attempt)

        judging.add_done_callback(judged)
        return made

    def _remember(self, name: str, mark: bytes) -> None:
        account = self._accounts.find(name)
        if account:
            self._known[mark] = (self._now_ms() + CREDENTIAL_LIFETIME_MS, account.password)
        while len(self._known) > MAX_KNOWN_CREDENTIALS:
            self._known.popitem(last=False)


class AuthMiddleware:
    """Raw ASGI, because a `BaseHTTPMiddleware` would let the websocket pass."""

    def __init__(
        self, app: ASGIApp, sessions: SessionStore, passwords: PasswordCheck, page_token: str = ""
    ) -> None:
        """Whoever sends `page_token` reads the page of metrics, and nothing else."""
        self._app = app
        self._page_token = page_token
        self._sessions = sessions
        self._passwords = passwords

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        refusal = await self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4401})
        else:
            await refusal(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        connection = HTTPConnection(scope)
        if _foreign_origin(scope, connection.headers):
            return JSONResponse({"error": "foreign origin"}, 403)
        try:
            principal = await self._principal(connection)
        except AccountsUnavailable as error:
            return JSONResponse({"error": "the accounts cannot be read", "detail": str(error)}, 503)
        except TooManyAttempts as error:
            return None if is_open(scope["path"]) else _too_many_attempts(error)
        scope.setdefault("state", {})["principal"] = principal
        if principal is not None or is_open(scope["path"]):
            return None
        return _login_required(scope)

    async def _principal(self, connection: HTTPConnection) -> ConsolePrincipal | None:
        session_id = connection.session.get("sid", "")
        if session_id and (found := self._sessions.principal(session_id)):
            return found
        authorization = connection.headers.get("authorization", "")
        if connection.scope["path"] == METRICS_PATH and is_one_of(
            bearer_token(authorization), (self._page_token,)
        ):
            return PAGE_READER
        credentials = _basic(authorization)
        if credentials is None:
            return None
        return await self._passwords.principal(*credentials, LoginSender(address_of(connection)))


def address_of(connection: HTTPConnection) -> str:
    """The client's, which a trusted proxy tells."""
    return connection.client.host if connection.client else ""


def is_open(path: str) -> bool:
    """Whether the path is for everybody: only what logging in itself needs, and the pulse."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def is_for_machines(path: str) -> bool:
    """Whether a script asks there, which reads a status and JSON, and not a person."""
    return path.startswith(_MACHINE_PREFIXES)


def _too_many_attempts(error: TooManyAttempts) -> Response:
    return JSONResponse(
        {"error": str(error)}, 429, headers={"Retry-After": str(error.retry_after_s)}
    )


def _login_required(scope: Scope) -> Response:
    path: str = scope["path"]
    if scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD"):
        return JSONResponse({"error": "log in first"}, 401)
    if path == METRICS_PATH:
        return JSONResponse({"error": METRICS_REFUSED}, 401, {"WWW-Authenticate": SCHEME})
    if is_for_machines(path):
        return JSONResponse({"error": "log in first"}, 401)
    query = scope.get("query_string", b"").decode("latin-1")
    target = f"{path}?{query}" if query else path
    return RedirectResponse(f"/login?next={quote(target, safe='/')}", 303)


def _foreign_origin(scope: Scope, headers: Headers) -> bool:
    """A page of another site that makes a browser send our cookie: refused before anything
    changes.
    """
    origin = headers.get("origin")
    if origin is None or (scope["type"] == "http" and scope["method"] in _SAFE_METHODS):
        return False
    return urlsplit(origin).netloc != headers.get("host", "")


def _basic(header: str) -> tuple[str, str] | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sender
