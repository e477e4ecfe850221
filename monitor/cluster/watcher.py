"""Looks at the cluster again and again and keeps what it saw, whether anybody looks or not.

In: bootstrap servers, ZooKeeper's address if the cluster has one, where the brokers' metrics are.
Out: `history`, `traffic`, the metadata tree when a page asks, and `on_look` after each look.
Core: `History`, `picture`, `Traffic`, `MetadataTree`.
Never: a change to the cluster, a wait on the event loop (every question runs in a thread).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import msgspec

from bus.client.nodes import Nodes
from bus.client.operate import look
from bus.client.operate.metadata_log import MetadataTail
from bus.client.operate.views import QuorumState
from bus.errors import BusError, ErrorCode
from monitor.cluster.events import Event
from monitor.cluster.history import History
from monitor.cluster.picture import Picture, picture
from monitor.cluster.traffic import Traffic
from monitor.cluster.tree import MetadataTree, Tree
from monitor.cluster.znodes import Znodes, ZooKeeperAway

log = logging.getLogger(__name__)

CLIENT_ID = "databus-console-cluster"
WATCHED_SECONDS = 1.0
UNWATCHED_SECONDS = 5.0
SHARE = 20
"""A look may take one part in so many of the time: a large cluster is looked at less often."""

CONNECT_TIMEOUT_MS = 1_000
REQUEST_TIMEOUT_MS = 5_000
METRICS_TIMEOUT_S = 1.0
TREE_PAGES = 50
"""Pages of the metadata log read at once; the next question reads on."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The tree and the newest records or znodes, newest first."""

    mode: str
    tree: Tree
    newest: list[dict[str, Any]]
    fault: str = ""


Seen = Callable[[Picture, list[Event]], None]


class Watcher:
    """A service: `run` until cancelled."""

    def __init__(
        self,
        bootstrap_servers: str,
        zookeeper: str,
        metrics_urls: Mapping[int, str],
        now_ms: Callable[[], int],
    ) -> None:
        self.history = History()
        self.traffic = Traffic()
        self.away = ""
        self.watched: Callable[[], bool] = lambda: False
        self.on_look: Seen = lambda now, new: None
        self._metrics_urls = dict(metrics_urls)
        self._now_ms = now_ms
        self._nodes = Nodes(
            bootstrap_servers, CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self._tail_nodes = Nodes(
            bootstrap_servers, CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self._znodes = Znodes(zookeeper) if zookeeper else None
        self._tail = MetadataTail(self._tail_nodes, CLIENT_ID)
        self._tree = MetadataTree()
        self._reading = asyncio.Lock()

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                begun = time.monotonic()
                await asyncio.gather(self.look(), self._measure())
                took = time.monotonic() - begun
                pause = WATCHED_SECONDS if self.watched() else UNWATCHED_SECONDS
                await asyncio.sleep(max(pause - took, took * SHARE))
        finally:
            self._nodes.close()
            self._tail.close()
            self._tail_nodes.close()

    async def look(self) -> None:
        """Look once; a cluster that does not answer is `away` and keeps its last picture."""
        try:
            now = await asyncio.to_thread(self._look)
        except (BusError, OSError) as error:
            if not self.away:
                log.warning("the cluster does not answer: %s", error)
            self.away = str(error)
            return
        except Exception as error:  # a broker's answer that nobody here can make sense of
            if not self.away:
                log.exception("the cluster's answer makes no sense")
            self.away = f"its answer makes no sense: {error!r}"
            return
        self.away = ""
        self.on_look(now, self.history.take(now))

    async def _measure(self) -> None:
        """The brokers' own pages; one that does not answer has no rates, and that is all."""
        if not self._metrics_urls or not self.watched():
            return
        async with httpx.AsyncClient(timeout=METRICS_TIMEOUT_S, trust_env=False) as client:
            for broker_id, url in sorted(self._metrics_urls.items()):
                try:
                    reply = await client.get(url)
                    page = reply.text if reply.is_success else None
                except (httpx.HTTPError, httpx.InvalidURL):
                    page = None
                try:
                    self.traffic.take(broker_id, page, time.monotonic())
                except ValueError as error:
                    log.info("the metrics of broker %s make no sense: %s", broker_id, error)

    async def metadata(self) -> Metadata:
        """The tree as it is now; one reader at a time."""
        async with self._reading:
            return await asyncio.to_thread(self._metadata)

    # -- in a thread ------------------------------------------------------------------

    def _look(self) -> Picture:
        cluster = look.cluster(self._nodes)
        return picture(
            cluster,
            look.topics(self._nodes),
            self._quorum(),
            now_ms=self._now_ms(),
            moving=self._moving(),
            zookeeper_epoch=self._zookeeper_epoch(),
            before=self.history.last,
        )

    def _quorum(self) -> QuorumState | None:
        try:
            return look.quorum(self._nodes)
        except BusError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                return None  # ZooKeeper
            raise

    def _moving(self) -> int:
        """A cluster between two controllers cannot say; the rest of the picture stands."""
        try:
            return len(look.reassignments(self._nodes))
        except BusError:
            return 0

    def _zookeeper_epoch(self) -> int:
        if self._znodes is None:
            return -1
        try:
            return self._znodes.controller_epoch()
        except ZooKeeperAway:
            return -1

    def _metadata(self) -> Metadata:
        try:
            if self._znodes is not None:
                tree, newest = self._znodes.read()
                return Metadata(mode="zookeeper", tree=tree, newest=newest)
            self._read_on()
        except (BusError, ZooKeeperAway, OSError) as error:
            return self._told(str(error))
        return self._told("")

    def _told(self, fault: str) -> Metadata:
        newest = list(reversed(self._tree.newest))
        mode = "zookeeper" if self._znodes is not None else "kraft"
        return Metadata(mode=mode, tree=self._tree.root, newest=newest, fault=fault)

    def _read_on(self) -> None:
        for _ in range(TREE_PAGES):
            page = self._tail.read()
            if page.snapshot:
                self._tree.reset()
            self._tree.take(page.records)
            if page.end_offset >= page.high_watermark:
                return
