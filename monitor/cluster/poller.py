"""Polls the cluster and keeps what it saw, whether a page is open or not.

Gives `history`, `traffic`, the metadata tree when a page asks, and calls `on_poll` after each poll.
Every query runs in a thread, and none changes the cluster. Core: `ClusterHistory`,
`build_snapshot`, `BrokerTraffic`, `MetadataTree`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

import msgspec

from bus.client.admin import queries
from bus.client.admin.config_resources import BROKER, TOPIC
from bus.client.admin.metadata_log import MetadataLogReader
from bus.client.model import QuorumDescription
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.acls import AclBinding
from bus.security.page_token import bearer_headers
from bus.settings import BusSettings
from monitor.cluster.described_tree import described_tree
from monitor.cluster.events import ClusterEvent
from monitor.cluster.history import ClusterHistory
from monitor.cluster.snapshot import ClusterSnapshot, build_snapshot
from monitor.cluster.traffic import BrokerTraffic
from monitor.cluster.tree import MetadataTree, Tree
from monitor.cluster.znodes import ZnodeReader, ZooKeeperUnavailable
from monitor.http_client import http_client, page_of

log = logging.getLogger(__name__)

CLIENT_ID = "databus-console-cluster"
WATCHED_SECONDS = 1.0
UNWATCHED_SECONDS = 5.0
MAX_TIME_SHARE = 20
"""A look may take one part in so many of the time: a large cluster is looked at less often."""

CONNECT_TIMEOUT_MS = 1_000
REQUEST_TIMEOUT_MS = 5_000
METRICS_TIMEOUT_S = 1.0
REFUSED_S = 60.0
"""Controllers, or an ensemble, that have let us in never yet are tried again after this time: of a
closed site they admit nodes only, and every attempt is a line of their logs."""
TREE_PAGES = 50
"""Pages of the metadata log read at once; the next question reads on."""


class MetadataView(msgspec.Struct, frozen=True, kw_only=True):
    """The tree and the newest records or znodes, newest first. `is_described`: the metadata cannot
    be read with our login, the tree is what brokers say; there are no newest ones then."""

    mode: str
    tree: Tree
    newest: list[dict[str, object]]
    fault: str = ""
    is_described: bool = False


OnPoll = Callable[[ClusterSnapshot, list[ClusterEvent]], None]


class ClusterPoller:
    """A service: `run` until cancelled."""

    def __init__(
        self,
        bus: BusSettings,
        znodes: ZnodeReader | None,
        metrics_urls: Mapping[int, str],
        now_ms: Callable[[], int],
        page_token: str = "",
    ) -> None:
        """`page_token` is what the pages at `metrics_urls` ask for."""
        self.history = ClusterHistory()
        self.traffic = BrokerTraffic()
        self.unavailable = ""
        self.watched: Callable[[], bool] = lambda: False
        self.on_poll: OnPoll = lambda now, new: None
        self._metrics_urls = dict(metrics_urls)
        self._page_headers = bearer_headers(page_token)
        self._now_ms = now_ms
        self._nodes = SyncClient.of(
            bus, CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self._log_nodes = SyncClient.of(
            bus, CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self._znodes = znodes
        self._metadata_log = MetadataLogReader(self._log_nodes)
        self._tree = MetadataTree()
        self._has_read = False
        self._refused_until_s = 0.0
        self._reading = asyncio.Lock()

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                begun = time.monotonic()
                await asyncio.gather(self.poll(), self._poll_metrics())
                took = time.monotonic() - begun
                pause = WATCHED_SECONDS if self.watched() else UNWATCHED_SECONDS
                await asyncio.sleep(max(pause - took, took * MAX_TIME_SHARE))
        finally:
            self._nodes.close()
            self._metadata_log.close()
            self._log_nodes.close()

    async def poll(self) -> None:
        """Look once; a cluster that does not answer is `unavailable` and keeps its last
        picture."""
        try:
            now = await asyncio.to_thread(self._query_snapshot)
        except (BusError, OSError) as error:
            if not self.unavailable:
                log.warning("the cluster does not answer: %s", error)
            self.unavailable = str(error)
            return
        except Exception as error:  # a broker's response that cannot be interpreted
            if not self.unavailable:
                log.exception("the cluster's answer makes no sense")
            self.unavailable = f"its answer makes no sense: {error!r}"
            return
        self.unavailable = ""
        self.on_poll(now, self.history.add(now))

    async def _poll_metrics(self) -> None:
        """The brokers' own pages; one that does not answer has no rates, and that is all."""
        if not self._metrics_urls or not self.watched():
            return
        async with http_client(METRICS_TIMEOUT_S, headers=self._page_headers) as client:
            for broker_id, url in sorted(self._metrics_urls.items()):
                page = await page_of(client, url)
                try:
                    self.traffic.update(broker_id, page, time.monotonic())
                except ValueError as error:
                    log.info("the metrics of broker %s make no sense: %s", broker_id, error)

    async def metadata(self) -> MetadataView:
        """The tree as it is now; one reader at a time."""
        async with self._reading:
            return await asyncio.to_thread(self._metadata)

    # -- in a thread ------------------------------------------------------------------

    def _query_snapshot(self) -> ClusterSnapshot:
        cluster = queries.cluster(self._nodes)
        return build_snapshot(
            cluster,
            queries.topics(self._nodes),
            self._quorum(),
            now_ms=self._now_ms(),
            moving=self._moving(),
            zookeeper_epoch=self._zookeeper_epoch(),
            before=self.history.last,
        )

    def _quorum(self) -> QuorumDescription | None:
        try:
            return queries.quorum(self._nodes)
        except BusError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                return None  # ZooKeeper
            raise

    def _moving(self) -> int:
        """A cluster between two controllers cannot say; the rest of the picture stands."""
        try:
            return len(queries.reassignments(self._nodes))
        except BusError:
            return 0

    def _zookeeper_epoch(self) -> int:
        if self._znodes is None:
            return -1
        try:
            return self._znodes.controller_epoch()
        except ZooKeeperUnavailable:
            return -1

    def _metadata(self) -> MetadataView:
        if time.monotonic() < self._refused_until_s:
            return self._described()
        try:
            if self._znodes is not None:
                tree, newest = self._znodes.read()
                self._has_read = True
                return MetadataView(mode="zookeeper", tree=tree, newest=newest)
            self._read_log()
            self._has_read = True
        except (BusError, ZooKeeperUnavailable, OSError) as error:
            if self._has_read:
                return self._metadata_view(str(error))
            log.info("the metadata cannot be read, brokers are asked for them: %s", error)
            self._refused_until_s = time.monotonic() + REFUSED_S
            return self._described()
        return self._metadata_view("")

    def _described(self) -> MetadataView:
        """What brokers say to whoever may ask them."""
        mode = "kraft" if self._znodes is None else "zookeeper"
        nodes = self._log_nodes
        try:
            cluster, topics = queries.cluster(nodes), queries.topics(nodes)
            topic_configs = queries.many_configs(nodes, TOPIC, [topic.name for topic in topics])
            configs = {f"topic {name}": entries for name, entries in topic_configs.items()}
            configs["all brokers"] = queries.configs(nodes, BROKER, "")
            quorum, acls = queries.quorum_or_none(nodes), self._acls()
        except (BusError, OSError) as error:
            return MetadataView(
                mode=mode, tree={}, newest=[], fault=str(error), is_described=True
            )
        tree = described_tree(cluster, topics, quorum, configs, acls)
        return MetadataView(mode=mode, tree=tree, newest=[], is_described=True)

    def _acls(self) -> list[AclBinding]:
        try:
            return queries.acls(self._log_nodes)
        except BusError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return []
            raise

    def _metadata_view(self, fault: str) -> MetadataView:
        newest = list(reversed(self._tree.newest))
        mode = "zookeeper" if self._znodes is not None else "kraft"
        return MetadataView(mode=mode, tree=self._tree.root, newest=newest, fault=fault)

    def _read_log(self) -> None:
        for _ in range(TREE_PAGES):
            page = self._metadata_log.read()
            if page.snapshot:
                self._tree.reset()
            self._tree.apply(page.records)
            if page.end_offset >= page.high_watermark:
                return
