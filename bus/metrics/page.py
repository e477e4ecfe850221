"""Serves `GET /metrics` (Prometheus text), `GET /healthz` ("ok") and what else a process shows, as
JSON, on the metrics port. Where a token is set, everything but `/healthz` asks for it.

No request bodies, no keep-alive: it is not a web server; pages are the console's. Who sends no
request is cut off after `REQUEST_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from bus.security.page_token import REFUSED, SCHEME, may_read_pages

MAX_HEAD_BYTES = 8 * 1024
"""A scraper's request head; anything longer is not one."""

REQUEST_S = 10.0
"""How long a scraper may take to send its request and to take the answer."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE = "application/json"
AUTHORIZATION = b"authorization"

JsonPages = Mapping[bytes, Callable[[], str]]
"""By path, what a process shows besides: JSON."""
NO_PAGES: JsonPages = {}


class MetricsConnection(asyncio.Protocol):
    """One scrape: reads a request head, writes a response, closes."""

    def __init__(
        self, render: Callable[[], str], pages: JsonPages = NO_PAGES, page_token: str = ""
    ) -> None:
        """Without `page_token` nobody is asked for one."""
        self._render = render
        self._pages = pages
        self._page_token = page_token
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the response."""
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(REQUEST_S, self._transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        """It has ended."""
        self._abort_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Respond as soon as the head is complete."""
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._transport.write(
                respond(self._head, self._render, self._pages, self._page_token)
            )
            self._transport.close()
        elif len(self._head) > MAX_HEAD_BYTES:
            self._transport.abort()


def respond(
    head: bytes, render: Callable[[], str], pages: JsonPages = NO_PAGES, page_token: str = ""
) -> bytes:
    """The response to one request head. A page that is added here is behind the token as well."""
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", "only GET\n")
    if path == b"/healthz":
        return _response("200 OK", "ok\n")
    if not may_read_pages(_authorization(head), page_token):
        return _response("401 Unauthorized", REFUSED + "\n", more=f"WWW-Authenticate: {SCHEME}\r\n")
    if path == b"/metrics":
        return _response("200 OK", render(), METRICS_TYPE)
    if path in pages:
        return _response("200 OK", pages[path](), JSON_TYPE)
    return _response("404 Not Found", "try /metrics\n")


def _authorization(head: bytes) -> str:
    """The value of that header; empty where there is none, or more than one."""
    found = [
        value
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        if name.lower() == AUTHORIZATION
    ]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _response(
    status: str, text: str, content_type: str = "text/plain; charset=utf-8", more: str = ""
) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
