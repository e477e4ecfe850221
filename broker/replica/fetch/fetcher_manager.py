"""All fetchers of a broker: ``num.replica.fetchers`` per leader, partitions spread over them.

Starts and stops fetcher tasks as partitions are added and removed. A fetcher without partitions is
stopped, and its connection closed with it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.replica.fetch.fetcher import Fetcher, FetchHost
from broker.replica.fetch.session_handler import FetchLimits
from broker.replica.partition import Partition
from broker.replica.port import ClusterAccess

FetcherKey = tuple[int, int]


class FetcherManager:
    """Invariant: a partition has at most one fetcher, that of ``_fetcher_of``."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        cluster: ClusterAccess,
        host: FetchHost,
        config: Callable[[str], int],
    ) -> None:
        """``config``: the value in force of a broker key."""
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._host = host
        self._config = config
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._fetcher_of: dict[tuple[bytes, int], FetcherKey] = {}
        self._stopping: list[TaskHandle] = []
        self._stopped = False

    def add(self, partition: Partition) -> None:
        """Copy from the partition's present leader, from its log's end on."""
        self.remove(partition)
        if self._stopped:
            return
        count = max(self._config("num.replica.fetchers"), 1)
        spread = zlib.crc32(f"{partition.topic}-{partition.index}".encode())
        key = (partition.leader_id, spread % count)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = self._create(key)
            fetcher.start()
        self._fetcher_of[partition.topic_id, partition.index] = key
        fetcher.add(partition)

    def remove(self, partition: Partition) -> None:
        """Stop copying it."""
        key = self._fetcher_of.pop((partition.topic_id, partition.index), None)
        if key is not None:
            self._fetchers[key].remove(partition)

    def stop_idle(self) -> None:
        """Stop fetchers that have nothing left (B-LDR-08)."""
        self._stopping = [task for task in self._stopping if not task.done()]
        for key, fetcher in list(self._fetchers.items()):
            if not fetcher.partitions:
                del self._fetchers[key]
                self._stopping.append(self._clock.spawn(fetcher.stop(), name="fetcher-end"))

    async def stop(self) -> None:
        """Stop all."""
        self._stopped = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        self._fetcher_of.clear()
        for fetcher in fetchers:
            await fetcher.stop()
        for task in self._stopping:
            await task

    def max_lag(self) -> int:
        """The most records any replica here is behind its leader."""
        return max(
            (c.lag for f in self._fetchers.values() for c in f.partitions.values()), default=0
        )

    def failed_count(self) -> int:
        """Partitions that are delayed after an error."""
        states = (c for f in self._fetchers.values() for c in f.partitions.values())
        return sum(1 for copy in states if copy.failures)

    def lag_of(self, partition: Partition) -> int:
        """Records the leader has and we lack, as of its last response."""
        key = self._fetcher_of.get((partition.topic_id, partition.index))
        if key is None:
            return 0
        return self._fetchers[key].partitions[partition.topic_id, partition.index].lag

    def __len__(self) -> int:
        return len(self._fetchers)

    def _create(self, key: FetcherKey) -> Fetcher:
        config = self._config
        leader_id, number = key
        name = f"replica-fetcher-{number}-{leader_id}"
        return Fetcher(
            name,
            self._broker_id,
            self._cluster.channel(leader_id, name),
            self._clock,
            self._host,
            FetchLimits(
                max_wait_ms=config("replica.fetch.wait.max.ms"),
                min_bytes=config("replica.fetch.min.bytes"),
                max_bytes=config("replica.fetch.response.max.bytes"),
                partition_max_bytes=config("replica.fetch.max.bytes"),
            ),
            timeout_ms=config("replica.socket.timeout.ms"),
            backoff_ms=lambda: max(config("replica.fetch.backoff.ms"), 1),
        )
