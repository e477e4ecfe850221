"""Asks the brokers' pages of metrics for their cleaners. Core: `cleaner_status`.

In: where the pages are. Out: a `BrokerCleaner` each. Never: an error: a broker that does not answer
says nothing of its cleaner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from bus.security.page_token import bearer_headers
from monitor.cluster.cleaner_status import BrokerCleaner, cleaner_of
from monitor.http_client import http_client, page_of

TIMEOUT_S = 3.0
MAX_PAGE_BYTES = 32 << 20


async def read_cleaners(urls: Mapping[int, str], token: str = "") -> list[BrokerCleaner]:
    """By broker; `token` is what their pages ask for."""
    async with http_client(TIMEOUT_S, headers=bearer_headers(token)) as client:
        pages = await asyncio.gather(*(_page(client, url) for _, url in sorted(urls.items())))
    return [cleaner_of(broker, page) for broker, page in zip(sorted(urls), pages, strict=True)]


async def _page(client: httpx.AsyncClient, url: str) -> str:
    page = await page_of(client, url) or ""
    return page if len(page.encode()) <= MAX_PAGE_BYTES else ""
