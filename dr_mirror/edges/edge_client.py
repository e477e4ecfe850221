"""Asks the edges of `mirror.edge_urls`, over HTTP, with bounds on time and size.

In: addresses. Out: bytes of their answers. Raises `EdgeUnavailable`. Core:
`dr_mirror.edges.plan.edge_status`. Never: a redirect followed, a proxy used.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from bus.security.page_token import bearer_headers

STATUS_PATH, SENT_AGAIN_PATH = "/v1/status", "/v1/sent-again"
TIMEOUT_S = 3.0
MAX_ANSWER_BYTES = 16 << 20


class EdgeUnavailable(Exception):
    """An edge did not answer as it should; the text says why."""


class EdgeClient:
    """Many edges, asked side by side, with the token that their pages ask for."""

    def __init__(self, token: str = "") -> None:
        import httpx  # a tenth of a second of CPU, for those who ask no edge

        self._client = httpx.AsyncClient(
            timeout=TIMEOUT_S, trust_env=False, headers=bearer_headers(token)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self._client.aclose()

    async def status(self, url: str) -> bytes:
        """Its own view of its two sites. Raises EdgeUnavailable."""
        return await self._get(url + STATUS_PATH) or b""

    async def sent_again(self, url: str, former_cluster_id: str) -> bytes | None:
        """What its move away from that cluster sent; None: there was none, or it is not complete.
        Raises EdgeUnavailable."""
        return await self._get(url + SENT_AGAIN_PATH, former=former_cluster_id)

    async def _get(self, url: str, **query: str) -> bytes | None:
        import httpx

        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                self._client.stream("GET", url, params=query) as reply,
            ):
                if reply.status_code == httpx.codes.NO_CONTENT:
                    return None
                if reply.status_code != httpx.codes.OK:
                    raise EdgeUnavailable(f"HTTP {reply.status_code}")
                found = bytearray()
                async for chunk in reply.aiter_bytes():
                    found += chunk
                    if len(found) > MAX_ANSWER_BYTES:
                        raise EdgeUnavailable(f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
                return bytes(found)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise EdgeUnavailable(f"{type(error).__name__}: {error}") from None
