"""Positions of an application as committed offsets of a consumer group, `streams-NAME`.

So an application needs no store, and every tool of Kafka shows its lag and resets it while it is
stopped. The group has no members: the driver assigns partitions by itself, as Spark does.

Each commit names all partitions of the topics and never lowers one. Of several drivers of one
application the one that is behind leaves the commits to the other until it has passed it: before a
commit it is read what the group has, every few seconds while nobody else commits, else each time
(Kafka has no commit that compares, so that two within one round trip remain). The metadata of an
offset is the id of the topic it was taken on (`bus.client.committed`).
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
from bus.errors import BusError
from bus.settings import BusSettings
from spark_apps.retry import retry

log = logging.getLogger(__name__)

CHECK_S = 2.0  # of a driver that is alone: how soon it notices another one
COMPANY_S = 60.0  # so long after another's last commit it is read again before each of ours
REFRESH_S = 3600.0  # commits expire (offsets.retention.minutes, 7 days), also where nothing comes


class GroupPositions:
    """The positions of one application, for any thread.

    Invariants: no end in `_ends` ever falls; after `start_at` it has every partition. `_committed`
    is what the group has if nobody else commits.
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
        self._committed: dict[TopicAndPartition, int] = {}
        self._check_at_s = 0.0
        self._company_until_s = 0.0
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
        self._committed = dict(self._ends)
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

    def start_at(self, starts: Mapping[TopicAndPartition, int]) -> None:
        """Where reading begins in every partition: what nothing comes from is named as well."""
        with self._lock:
            self._advance(starts)

    def commit(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Advance to these ends (exclusive). Retries for a while, then raises `BusError`."""
        with self._lock:
            self._advance(ends)
            retry(partial(self._commit_unless_behind, wait=True), self._stopping, self._group)

    def publish(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Commit for those who watch the lag, without waiting: the next one heals a lost one."""
        with self._lock:
            self._advance(ends)
            self._commit(wait=False)

    def refresh(self) -> None:
        """Commit again what has not been committed for an hour."""
        if time.monotonic() - self._committed_at_s <= REFRESH_S:
            return
        with self._lock:
            try:
                self._commit_unless_behind(wait=False)
            except BusError as error:
                log.warning("%s: not renewed, tried again later: %s", self._group, error)
                self._committed_at_s += CHECK_S

    def close(self) -> None:
        """Leave the connections."""
        self._consumer.close()

    def _advance(self, ends: Mapping[TopicAndPartition, int]) -> None:
        for partition, end in ends.items():
            self._ends[partition] = max(end, self._ends.get(partition, 0))

    def _commit_unless_behind(self, *, wait: bool) -> None:
        if self._is_behind():
            self._committed_at_s = time.monotonic()  # another driver does it
        else:
            self._commit(wait=wait)

    def _is_behind(self) -> bool:
        """Whether another driver has committed more somewhere."""
        now_s = time.monotonic()
        if now_s < self._check_at_s:
            return False
        answer = self._consumer.committed_offsets(self._places)
        found, _ = valid_offsets(answer, self._cluster.topic_ids)
        if found != self._committed:
            self._company_until_s = now_s + COMPANY_S
            self._committed = found
        self._check_at_s = now_s + (CHECK_S if now_s > self._company_until_s else 0)
        return any(end > self._ends.get(partition, 0) for partition, end in found.items())

    def _commit(self, *, wait: bool) -> None:
        places = {TopicPartition(*partition): end for partition, end in self._ends.items()}
        ids = {place: self._cluster.topic_ids.get(place.topic, "") for place in places}
        if places:
            self._consumer.commit(places, ids, wait=wait)
        self._committed = dict(self._ends)
        self._committed_at_s = time.monotonic()
