"""Reads the watch-list commands to their end before records or candidates are matched.

Uses no group and stores no positions: the topic is the state (compacted) and is read from its
beginning at every start. Spark's driver and the dispatcher use the same reader.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from alarm.rules import RuleSet
from bus.client.kafka.cluster import AdminClient, ClusterUnavailable, end_offsets, start_offsets
from bus.client.kafka.consumer import Consumer
from bus.client.model import ConsumedRecord, TopicAndPartition, TopicPartition
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST, TOPICS
from bus.settings import BusSettings

log = logging.getLogger(__name__)

CATCH_UP_TIMEOUT_S = 60.0  # ten thousand commands take a second; a broker may restart meanwhile
MAX_POLLED = 1000

OffsetsOf = Callable[[AdminClient, Iterable[TopicAndPartition]], dict[TopicAndPartition, int]]


class CatchUpTimeout(Exception):
    """The commands could not be read to their end; what waits for them must wait."""


class WatchlistReader:
    """A reader of all partitions of the command topic. One thread at a time."""

    def __init__(
        self,
        bus: BusSettings,
        admin: AdminClient,
        client_id: str,
        *,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
    ) -> None:
        self.rules = RuleSet()
        self._stopping = stopping or threading.Event()
        self._timeout_s = timeout_s
        self._admin = admin
        numbers = range(TOPICS[CONTROL_WATCHLIST].partitions)
        self._partitions: list[TopicAndPartition] = [
            (CONTROL_WATCHLIST, number) for number in numbers
        ]
        self._consumer = Consumer(bus, client_id=client_id)
        self._ends = self._query_offsets(start_offsets)
        self._consumer.assign(
            {TopicPartition(*partition): end for partition, end in self._ends.items()}
        )

    def catch_up(self) -> list[WatchCommand]:
        """Apply every command that was on the topic when this was called, and return the new ones.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile. The end is asked over a
        connection of its own: on the consumer's, the question would wait behind the fetch that
        waits for new commands (up to half a second).
        """
        wanted = self._query_offsets(end_offsets)
        deadline = time.monotonic() + self._timeout_s
        applied: list[WatchCommand] = []
        while any(self._ends[partition] < end for partition, end in wanted.items()):
            if time.monotonic() > deadline or self._stopping.is_set():
                raise CatchUpTimeout(f"read to {self._ends}, wanted {wanted}")
            for received in self._consumer.poll(MAX_POLLED, 0.5):
                applied += self._apply(received)
        return applied

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def _query_offsets(self, offsets: OffsetsOf) -> dict[TopicAndPartition, int]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return offsets(self._admin, self._partitions)
            except ClusterUnavailable as error:
                if time.monotonic() > deadline or self._stopping.wait(0.1):
                    raise CatchUpTimeout(str(error)) from error

    def _apply(self, received: ConsumedRecord) -> list[WatchCommand]:
        self._ends[received.topic, received.partition] = received.offset + 1
        if received.value is None:
            return []  # a tombstone is no command: removals are explicit
        try:
            command = msgspec.json.decode(received.value, type=WatchCommand)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.error("the command at offset %d is not readable: %s", received.offset, error)
            return []
        return [command] if self.rules.apply(command) else []
