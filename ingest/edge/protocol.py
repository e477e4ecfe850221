"""uvicorn's HTTP protocol with an end for requests that are begun and not finished.

In: bytes of one connection. Out: what uvicorn makes of them; 408 and the end of the connection for
a sender that has gone silent in the middle of a request, or has not begun one. Never: judging by
the clock alone: silence is counted in looks, so that a stalled loop is not taken for a silent
sender.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ingest.edge.answers import Problem

LOOK_S = 5.0
# 15 to 20 s: a sender on a bad line resends a lost packet within that, several times.
MAX_SILENT_LOOKS = 3
MAX_LOOKS = 60  # five minutes for one request, however slowly it drips; 32 MiB then need 1 Mbit/s


class EdgeProtocol(HttpToolsProtocol):
    """Invariant: `_unfinished` from the connection's and each request's beginning until the
    request is there whole; uvicorn's own keep-alive timer has the time between requests."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unfinished = True
        self._heard = False  # anything since the last look
        self._looks = self._silent_looks = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._unfinished = True
        self._looks = self._silent_looks = 0
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._unfinished = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, as a TLS handshake, is answered in the shape of every other answer."""
        self.transport.write(_answer(_NO_HTTP, "400 Bad Request"))
        self.transport.close()

    def _look(self) -> None:
        if self._unfinished:
            self._looks += 1
            self._silent_looks = 0 if self._heard else self._silent_looks + 1
            if self._silent_looks >= MAX_SILENT_LOOKS or self._looks >= MAX_LOOKS:
                self._give_up()
                return
        self._heard = False
        self._timer = self.loop.call_later(LOOK_S, self._look)

    def _give_up(self) -> None:
        answered = self.cycle is not None and self.cycle.response_started
        if not answered or self.cycle.response_complete:
            self.transport.write(_answer(_TOO_SLOW, "408 Request Timeout"))
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


def _answer(problem: Problem, status: str) -> bytes:
    body = msgspec.json.encode(problem)
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
