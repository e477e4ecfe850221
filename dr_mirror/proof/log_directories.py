"""Where on a broker a replica lies, and how large it is: asked when something differs there, and
when the proof first looks at a partition.

In: broker and partition. Out: a directory, a size; empty and -1 where the broker does not say.
Blocking work runs in a thread. Never: a question for each replica; a broker's answer is kept for a
minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from bus.client.model import StoredReplica, TopicPartition
from bus.errors import BusError
from dr_mirror.copy.mirrored_cluster import MirroredCluster

KEEP_S = 60.0


UNKNOWN = StoredReplica()


class LogDirectories:
    """Of one cluster."""

    def __init__(self, cluster: MirroredCluster) -> None:
        self._cluster = cluster
        self._known: dict[int, tuple[float, Mapping[TopicPartition, StoredReplica]]] = {}
        self._asking = asyncio.Lock()

    async def of(self, broker: int, partition: TopicPartition) -> StoredReplica:
        """`UNKNOWN` where the broker does not say."""
        async with self._asking:  # a connection serves one thread at a time
            at_s, found = self._known.get(broker, (-KEEP_S, {}))
            if time.monotonic() - at_s >= KEEP_S:
                try:
                    found = await asyncio.to_thread(self._cluster.stored_replicas, broker)
                except BusError:
                    found = {}
                self._known[broker] = time.monotonic(), found
        return found.get(partition, UNKNOWN)
