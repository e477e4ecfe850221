"""The sender's side of the edge's HTTP interface: one keep-alive connection, its responses as
values. Retries are the caller's."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import msgspec


class RejectedEntry(msgspec.Struct, frozen=True):
    """One entry of the edge's list of rejected records."""

    index: int
    reason: str


class EdgeResponse(msgspec.Struct, frozen=True):
    """The edge's answer to a post."""

    accepted: int
    ids: list[str | None] = []
    rejected: list[RejectedEntry] = []


class EdgeRefused(Exception):
    """The edge did not take the post now; `retry_after_s` is what it asks for, 0 if nothing."""

    def __init__(self, status: int, detail: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"HTTP {status}: {detail}")
        self.retry_after_s = retry_after_s


class EdgeConnection:
    """One keep-alive HTTP connection to the edge; opened when needed, dropped on any error."""

    def __init__(self, edge_url: str, timeout_ms: int, headers: dict[str, str]) -> None:
        parts = urlsplit(edge_url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 80
        self._base = parts.path.rstrip("/")
        self._timeout_s = timeout_ms / 1000
        self._headers = headers
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """The answer's body if it speaks of the records (2xx, 422). Raises `EdgeRefused`."""
        try:
            response = self._send(path, body, self._headers | headers)
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise EdgeRefused(0, f"{type(error).__name__}: {error}") from error
        if response.status in (200, 202, 204, 422):
            return answer
        pause = response.getheader("Retry-After") or "0"
        detail = answer[:200].decode("utf-8", "replace")
        raise EdgeRefused(response.status, detail, float(pause) if pause.isdigit() else 0.0)

    def close(self) -> None:
        """Forget the connection; the next post opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                self._host, self._port, timeout=self._timeout_s
            )
        self._connection.request("POST", self._base + path, body, headers)
        return self._connection.getresponse()
