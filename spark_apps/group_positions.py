"""Positions of an application as committed offsets of a consumer group, `streams-NAME`.

So an application needs no store, and every tool of Kafka shows its lag and resets it while it is
stopped. The group has no members: the driver assigns partitions by itself, as Spark does.

Each commit names all partitions of the topics and never lowers one. The metadata of an offset is
the id of the topic it was taken on (`bus.client.committed`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial

from bus.client.committed import valid_offsets
from bus.client.kafka.consumer import Consumer
from bus.client.model import ClusterIdentity, TopicAndPartition, TopicPartition
from bus.contracts.groups import application_group
from bus.settings import BusSettings
from spark_apps.retry import retry

log = logging.getLogger(__name__)

REFRESH_S = 3600.0  # commits expire (offsets.retention.minutes, 7 days), also where nothing comes


class GroupPositions:
    """The positions of one application, for any thread.

    Invariant: no end in `_ends` ever falls.
    """

    def __init__(
        self,
        bus: BusSettings,
        application: str,
        cluster: ClusterIdentity,
        topics: Iterable[str],
        stopping: threading.Event,
    ) -> None:
        wanted = set(topics)
        self._cluster = cluster
        self._stopping = stopping
        self._places = [TopicPartition(*p) for p in cluster.partitions if p[0] in wanted]
        self._group = application_group(application)
        self._consumer = Consumer(bus, client_id=self._group, group=self._group)
        self._lock = threading.Lock()
        self._ends: dict[TopicAndPartition, int] = {}
        self.application = application
        self.replaced: set[str] = set()
        """Topics whose committed position was void when it was read."""
        self._committed_at_s = time.monotonic()

    def read(self) -> dict[TopicAndPartition, int]:
        """Where the application stands. Retries for a while, then raises `BusError`."""
        committed = retry(
            partial(self._consumer.committed_offsets, self._places), self._stopping, self._group
        )
        self._ends, void = valid_offsets(committed, self._cluster.topic_ids)
        self.replaced = {topic for topic, _ in void}
        for topic, number in void:
            log.error(
                "%s: the position on %s-%d is of an earlier topic of that name and void; "
                "reading begins at the first record there is",
                self._group, topic, number,
            )  # fmt: skip
        return dict(self._ends)

    def since(
        self, moment_ms: int
    ) -> tuple[dict[TopicAndPartition, int], dict[TopicAndPartition, int]]:
        """Of each partition the offset at a moment, and the end as it is now. Retries for a while,
        then raises `BusError`."""
        ask = partial(self._consumer.offsets_at, self._places, moment_ms)
        ends = {
            place: retry(partial(self._consumer.bounds, place), self._stopping, self._group)[1]
            for place in self._places
        }
        found = retry(ask, self._stopping, self._group)
        starts = {
            (place.topic, place.partition): offset if offset >= 0 else ends[place]
            for place, offset in found.items()
        }
        return starts, {(place.topic, place.partition): end for place, end in ends.items()}

    def commit(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Advance to these ends (exclusive). Retries for a while, then raises `BusError`."""
        retry(partial(self._commit, ends, wait=True), self._stopping, self._group)

    def publish(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Commit for those who watch the lag, without waiting: the next one heals a lost one."""
        self._commit(ends, wait=False)

    def refresh(self) -> None:
        """Commit again what has not been committed for an hour."""
        if self._ends and time.monotonic() - self._committed_at_s > REFRESH_S:
            self.publish({})

    def close(self) -> None:
        """Leave the connections."""
        self._consumer.close()

    def _commit(self, ends: Mapping[TopicAndPartition, int], *, wait: bool) -> None:
        with self._lock:
            for partition, end in ends.items():
                self._ends[partition] = max(end, self._ends.get(partition, 0))
            places = {TopicPartition(*partition): end for partition, end in self._ends.items()}
            ids = {place: self._cluster.topic_ids.get(place.topic, "") for place in places}
            self._consumer.commit(places, ids, wait=wait)
            self._committed_at_s = time.monotonic()
