"""The one guard on the outer application: HTTP and websocket, API, pages, pictures and scripts
alike.

In: every request before any route sees it. Out: the same request with its principal in
`scope["state"]["principal"]`, or a refusal. Never: deciding what a principal may do (`authorise`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.accounts.book import AccountBook
from monitor.accounts.locked_file import DamagedFile
from monitor.accounts.roles import Principal
from monitor.accounts.sessions import Sessions
from monitor.accounts.throttle import FailedLogins

OPEN_PATHS = frozenset({"/healthz", "/login", "/auth/login"})
OPEN_PREFIXES = ("/auth/once/",)
# Whoever asks here is a script, not a person: 401 instead of the way to the log-in page.
_MACHINE_PREFIXES = ("/api/", "/metrics", "/pictures/", "/assets/", "/_nicegui", "/openapi.json")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

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


class PasswordCheck:
    """HTTP Basic for scripts: verified off the loop, remembered for a minute, throttled as the
    form is.
    """

    def __init__(
        self, book: AccountBook, failures: FailedLogins, now_ms: Callable[[], int]
    ) -> None:
        self._book = book
        self._failures = failures
        self._now_ms = now_ms
        self._pepper = os.urandom(32)
        self._known: OrderedDict[bytes, tuple[int, str]] = OrderedDict()

    async def principal(self, name: str, password: str, address: str) -> Principal | None:
        """Who this is, or None: wrong, or too many wrong before."""
        now = self._now_ms()
        mark = hmac.digest(self._pepper, f"{name}\0{password}".encode(), hashlib.sha256)
        account = self._book.find(name)
        known = self._known.get(mark)
        if known and known[0] > now and account and account.password == known[1]:
            return Principal(name=name, roles=frozenset(account.roles))
        if self.wait_ms(name, address):
            return None
        found = await asyncio.to_thread(self._book.verify, name, password)
        self._remember(found, mark, name, address, now)
        return found

    def wait_ms(self, name: str, address: str) -> int:
        """How long this name from this address must wait."""
        return self._failures.wait_ms(f"{address} {name}", self._now_ms())

    def _remember(
        self, found: Principal | None, mark: bytes, name: str, address: str, now: int
    ) -> None:
        if found is None:
            self._failures.failed(f"{address} {name}", now)
            return
        self._failures.succeeded(f"{address} {name}")
        account = self._book.find(name)
        if account:
            self._known[mark] = (now + CREDENTIAL_LIFETIME_MS, account.password)
        while len(self._known) > MAX_KNOWN_CREDENTIALS:
            self._known.popitem(last=False)


class Guard:
    """Raw ASGI, because a `BaseHTTPMiddleware` would let the websocket pass."""

    def __init__(self, app: ASGIApp, sessions: Sessions, passwords: PasswordCheck) -> None:
        self._app = app
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
        except DamagedFile as error:
            return JSONResponse({"error": "the accounts cannot be read", "detail": str(error)}, 503)
        scope.setdefault("state", {})["principal"] = principal
        if principal is not None or is_open(scope["path"]):
            return None
        return _please_log_in(scope)

    async def _principal(self, connection: HTTPConnection) -> Principal | None:
        session_id = connection.session.get("sid", "")
        if session_id and (found := self._sessions.principal(session_id)):
            return found
        credentials = _basic(connection.headers.get("authorization", ""))
        if credentials is None:
            return None
        address = connection.client.host if connection.client else ""
        return await self._passwords.principal(*credentials, address)


def is_open(path: str) -> bool:
    """Whether the path is for everybody: only what logging in itself needs, and the pulse."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def _please_log_in(scope: Scope) -> Response:
    path: str = scope["path"]
    if scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD"):
        return JSONResponse({"error": "log in first"}, 401)
    if path.startswith(_MACHINE_PREFIXES):
        return JSONResponse({"error": "log in first"}, 401)
    return RedirectResponse(f"/login?next={quote(path)}", 303)


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
