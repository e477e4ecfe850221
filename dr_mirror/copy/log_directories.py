"""In which log directory of a broker a replica lies: asked when something differs there.

In: broker and partition. Out: a path, empty where the broker does not say. Blocking work runs in a
thread. Never: a question for each difference; a broker's answer is kept for a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from bus.client.model import TopicPartition
from bus.errors import BusError

KEEP_S = 60.0

AskDirectories = Callable[[int], Mapping[TopicPartition, str]]
"""The log directory of every replica on a broker. Blocking. Raises BusError."""


class LogDirectories:
    """Of one cluster."""

    def __init__(self, ask: AskDirectories) -> None:
        self._ask = ask
        self._known: dict[int, tuple[float, Mapping[TopicPartition, str]]] = {}
        self._asking = asyncio.Lock()

    async def of(self, broker: int, partition: TopicPartition) -> str:
        """Empty: not known."""
        async with self._asking:  # a connection serves one thread at a time
            at_s, found = self._known.get(broker, (-KEEP_S, {}))
            if time.monotonic() - at_s >= KEEP_S:
                try:
                    found = await asyncio.to_thread(self._ask, broker)
                except BusError:
                    found = {}
                self._known[broker] = time.monotonic(), found
        return found.get(partition, "")
