"""Where on a broker a replica lies, and how large it is: asked when something differs there, and
when the proof first looks at a partition.

In: broker and partition. Out: a directory, a size; empty and -1 where the broker does not say.
Blocking work runs in a thread. Never: a question for each replica; a broker's answer is kept for a
minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from bus.client.model import StoredReplica, TopicPartition
from bus.errors import BusError

KEEP_S = 60.0


AskStored = Callable[[int], Mapping[TopicPartition, StoredReplica]]
"""Every replica on a broker. Blocking. Raises BusError."""
UNKNOWN = StoredReplica()


class LogDirectories:
    """Of one cluster."""

    def __init__(self, ask: AskStored) -> None:
        self._ask = ask
        self._known: dict[int, tuple[float, Mapping[TopicPartition, StoredReplica]]] = {}
        self._asking = asyncio.Lock()

    async def of(self, broker: int, partition: TopicPartition) -> StoredReplica:
        """`UNKNOWN` where the broker does not say."""
        async with self._asking:  # a connection serves one thread at a time
            at_s, found = self._known.get(broker, (-KEEP_S, {}))
            if time.monotonic() - at_s >= KEEP_S:
                try:
                    found = await asyncio.to_thread(self._ask, broker)
                except BusError:
                    found = {}
                self._known[broker] = time.monotonic(), found
        return found.get(partition, UNKNOWN)
