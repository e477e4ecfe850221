"""The client for other processes' HTTP pages.

Out: `httpx.AsyncClient`s that share one set of certificates: reading it takes 20 ms of the event
loop, for each client that would do so. Never: a proxy, a redirect.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


def prepare() -> None:
    """In a thread, before the loop makes its first client: certificates, and what httpx imports."""
    http_client(1.0)


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def http_client(timeout_s: float, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """For one question or several at once; to be used with `async with`."""
    return httpx.AsyncClient(
        timeout=timeout_s, trust_env=False, verify=_certificates(), headers=headers
    )


async def page_of(client: httpx.AsyncClient, url: str) -> str | None:
    """What stands there; None where nothing answers well, whatever the URL."""
    try:
        reply = await client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return reply.text if reply.is_success else None
