"""uvicorn's HTTP protocol with a time limit for unfinished requests.

Answers 408 and closes the connection when a sender falls silent in the middle of a request or
before one. Silence is counted in checks, not in seconds, so that a stalled loop is not taken for a
silent sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ingest.edge.responses import Problem

OnRefused = Callable[[str, Problem], None]
CHECK_S = 5.0
# 15 to 20 s: a sender on a bad line resends a lost packet within that, several times.
MAX_SILENT_CHECKS = 3
MAX_CHECKS = 60  # five minutes for one request, however slowly it drips; 32 MiB then need 1 Mbit/s


class EdgeProtocol(HttpToolsProtocol):
    """Invariant: `_unfinished` from the connection's and each request's beginning until the
    request is there whole; uvicorn's own keep-alive timer has the time between requests."""

    def __init__(self, *args: Any, on_refused: OnRefused, **options: Any) -> None:
        """`on_refused` hears of what no route has seen: peer and answer."""
        super().__init__(*args, **options)
        self._on_refused = on_refused
        self._begun = False  # a request, however little of it
        self._unfinished = True
        self._received = False  # anything since the last look
        self._checks = self._silent_checks = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(CHECK_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received = True
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._unfinished = self._begun = True
        self._checks = self._silent_checks = 0
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._unfinished = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, as a TLS handshake, is answered in the shape of every other answer."""
        self._on_refused(self._peer, _NO_HTTP)
        self.transport.write(_response(_NO_HTTP, "400 Bad Request"))
        self.transport.close()

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else ""

    def _check(self) -> None:
        if self._unfinished:
            self._checks += 1
            self._silent_checks = 0 if self._received else self._silent_checks + 1
            if self._silent_checks >= MAX_SILENT_CHECKS or self._checks >= MAX_CHECKS:
                self._abort()
                return
        self._received = False
        self._timer = self.loop.call_later(CHECK_S, self._check)

    def _abort(self) -> None:
        answered = self.cycle is not None and self.cycle.response_started
        if not answered or self.cycle.response_complete:
            if self._begun:  # else only a connection was opened, as proxies and browsers do
                self._on_refused(self._peer, _TOO_SLOW)
            self.transport.write(_response(_TOO_SLOW, "408 Request Timeout"))
        self.transport.close()


_TOO_SLOW = Problem(
    error="unfinished",
    message="the request was begun and not finished in time; nothing was taken",
    message_zh="请求未在限定时间内发送完整；未接收任何内容。",
)
_NO_HTTP = Problem(
    error="no-http",
    message="this is no HTTP request; the edge speaks plain HTTP, TLS is for a proxy in front",
    message_zh="不是 HTTP 请求；本接口只支持明文 HTTP，TLS 由前置代理提供。",
)


def _response(problem: Problem, status: str) -> bytes:
    body = msgspec.json.encode(problem)
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
