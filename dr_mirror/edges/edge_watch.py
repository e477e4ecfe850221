"""Keeps the newest answer of every edge of `mirror.edge_urls`.

In: addresses. Out: an `EdgeStatus` each. Core: `dr_mirror.edges.plan.edge_status`. Never: a wait of
one edge for another, an end because one does not answer.
"""

from __future__ import annotations

import asyncio

import msgspec

from bus.contracts.mirror_status import EdgeStatus
from bus.runtime.wall_clock import now_ms
from dr_mirror.edges.edge_client import EdgeClient, EdgeUnavailable
from dr_mirror.edges.plan.edge_status import edge_status

EVERY_S = 2.0


class EdgeWatch:
    """Invariant: one status for each address, in the order of the settings."""

    def __init__(self, urls: tuple[str, ...], token: str = "") -> None:
        self._token = token
        self._statuses = {url: EdgeStatus(url=url, problem="not asked yet") for url in urls}

    @property
    def statuses(self) -> tuple[EdgeStatus, ...]:
        """As they were heard last."""
        return tuple(self._statuses.values())

    async def run(self) -> None:
        """Ask all, again and again; for ever."""
        if not self._statuses:
            return
        async with EdgeClient(self._token) as client:
            while True:
                await asyncio.gather(*(self._ask(client, url) for url in self._statuses))
                await asyncio.sleep(EVERY_S)

    async def _ask(self, client: EdgeClient, url: str) -> None:
        try:
            self._statuses[url] = edge_status(url, await client.status(url), now_ms())
        except EdgeUnavailable as error:
            before = self._statuses[url]
            self._statuses[url] = msgspec.structs.replace(before, problem=f"no answer: {error}")
