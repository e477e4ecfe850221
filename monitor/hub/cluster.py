"""The broker's own picture for the bus page: topics, groups, brokers, and the backlog of our
applications.

In: an address. Out: one `Snapshot`, at most every `FRESH_SECONDS`. Never: a change on the broker;
a wait
on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from bus.contracts.topics import TOPICS
from ingest.store.port import Position
from monitor.lag.model import PartitionLag, lags, total

FRESH_SECONDS = 2.0
REQUEST_SECONDS = 5.0
MAX_GROUPS = 200  # asked one by one; more would be a page nobody reads
SHOWN_CONFIGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "compression.type",
    "segment.bytes",
)

T = TypeVar("T")


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `records` = end − start over its partitions; `ends` maps partition to end
    offset.
    """

    name: str
    internal: bool
    flow: str
    key: str
    partitions: int
    replicas: int
    under_replicated: int
    records: int
    skew_percent: float
    starts: dict[int, int]
    ends: dict[int, int]
    configs: dict[str, str] = {}


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer group with its lag, in total and per topic."""

    group_id: str
    state: str
    members: int
    lag: int
    topics: dict[str, int]


class BrokerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the cluster."""

    broker_id: int
    host: str
    port: int
    controller: bool


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one look. `faults` names what the broker did not answer."""

    cluster_id: str
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicInfo, ...]
    groups: tuple[GroupInfo, ...]
    taken_at_ms: int
    faults: tuple[str, ...] = ()


class BacklogRow(msgspec.Struct, frozen=True, kw_only=True):
    """How far one application is behind on one topic (N-11)."""

    application: str
    topic: str
    position: int
    end: int
    backlog: int
    lost: int


class BusAway(Exception):
    """No broker answers; the text says which was asked."""


class Cluster:
    """Asks in a thread, one question at a time; the last snapshot serves everybody for two
    seconds.
    """

    def __init__(self, bootstrap_servers: str, now_ms: Callable[[], int]) -> None:
        self._servers = bootstrap_servers
        self._now_ms = now_ms
        self._admin: Any = None
        self._last: Snapshot | None = None
        self._last_at = 0.0
        self._lock = asyncio.Lock()

    async def snapshot(self) -> Snapshot:
        """The cluster now. Raises `BusAway`."""
        async with self._lock:
            if self._last is None or time.monotonic() - self._last_at > FRESH_SECONDS:
                self._last = await asyncio.to_thread(self._look)
                self._last_at = time.monotonic()
            return self._last

    def _look(self) -> Snapshot:
        if self._admin is None:
            self._admin = AdminClient(
                {
                    "bootstrap.servers": self._servers,
                    "client.id": "databus-console",
                    "log_level": 0,
                    "reconnect.backoff.max.ms": 2000,
                }
            )
        try:
            metadata = self._admin.list_topics(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise BusAway(f"{self._servers}: {error.args[0].str()}") from error
        faults: list[str] = []
        starts = _tried(faults, "start offsets", lambda: self._offsets(metadata, "earliest")) or {}
        ends = _tried(faults, "end offsets", lambda: self._offsets(metadata, "latest")) or {}
        configs = _tried(faults, "topic configuration", lambda: self._configs(metadata)) or {}
        groups = _tried(faults, "groups", lambda: self._groups(ends)) or ()
        return Snapshot(
            cluster_id=metadata.cluster_id or "",
            brokers=tuple(
                BrokerInfo(
                    broker_id=b.id,
                    host=b.host,
                    port=b.port,
                    controller=b.id == metadata.controller_id,
                )
                for b in sorted(metadata.brokers.values(), key=lambda b: int(b.id))
            ),
            topics=tuple(
                _topic(topic, starts, ends, configs.get(topic.topic, {}))
                for _, topic in sorted(metadata.topics.items())
            ),
            groups=groups,
            taken_at_ms=self._now_ms(),
            faults=tuple(faults),
        )

    def _offsets(self, metadata: Any, which: str) -> dict[tuple[str, int], int]:
        spec = OffsetSpec.latest() if which == "latest" else OffsetSpec.earliest()
        wanted = {
            TopicPartition(name, number): spec
            for name, topic in metadata.topics.items()
            for number, partition in topic.partitions.items()
            if partition.leader >= 0
        }
        if not wanted:
            return {}
        answers = self._admin.list_offsets(wanted, request_timeout=REQUEST_SECONDS)
        return {
            (p.topic, p.partition): f.result(REQUEST_SECONDS).offset for p, f in answers.items()
        }

    def _configs(self, metadata: Any) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in metadata.topics]
        if not resources:
            return {}
        answers = self._admin.describe_configs(resources, request_timeout=REQUEST_SECONDS)
        return {
            resource.name: _shown(future.result(REQUEST_SECONDS))
            for resource, future in answers.items()
        }

    def _groups(self, ends: dict[tuple[str, int], int]) -> tuple[GroupInfo, ...]:
        listing = self._admin.list_consumer_groups(request_timeout=REQUEST_SECONDS)
        ids = sorted(g.group_id for g in listing.result(REQUEST_SECONDS).valid)[:MAX_GROUPS]
        if not ids:
            return ()
        described = self._admin.describe_consumer_groups(ids, request_timeout=REQUEST_SECONDS)
        return tuple(
            self._group(future.result(REQUEST_SECONDS), ends) for future in described.values()
        )

    def _group(self, group: Any, ends: dict[tuple[str, int], int]) -> GroupInfo:
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group.group_id)], request_timeout=REQUEST_SECONDS
        )
        committed = asked[group.group_id].result(REQUEST_SECONDS).topic_partitions
        topics: dict[str, int] = {}
        for p in committed:
            if p.offset >= 0:
                behind = max(0, ends.get((p.topic, p.partition), p.offset) - p.offset)
                topics[p.topic] = topics.get(p.topic, 0) + behind
        return GroupInfo(
            group_id=group.group_id,
            state=group.state.name,
            members=len(group.members),
            lag=sum(topics.values()),
            topics=topics,
        )


def _tried(faults: list[str], what: str, ask: Callable[[], T]) -> T | None:
    """A broker that lacks one answer still shows the others."""
    try:
        return ask()
    except (KafkaException, TimeoutError) as error:
        faults.append(f"{what}: {error}")
        return None


def _shown(entries: Any) -> dict[str, str]:
    return {key: entries[key].value for key in SHOWN_CONFIGS if key in entries}


def _topic(
    topic: Any,
    starts: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    configs: dict[str, str],
) -> TopicInfo:
    name = topic.topic
    contract = TOPICS.get(name)
    own_starts = {n: starts.get((name, n), 0) for n in sorted(topic.partitions)}
    own_ends = {n: ends.get((name, n), 0) for n in sorted(topic.partitions)}
    partitions = topic.partitions.values()
    return TopicInfo(
        name=name,
        internal=name.startswith("__"),
        flow=contract.flow.value if contract else "",
        key=contract.key if contract else "",
        partitions=len(topic.partitions),
        replicas=max((len(p.replicas) for p in partitions), default=0),
        under_replicated=sum(1 for p in partitions if len(p.isrs) < len(p.replicas)),
        records=sum(own_ends.values()) - sum(own_starts.values()),
        skew_percent=skew_percent([own_ends[n] - own_starts[n] for n in own_ends]),
        starts=own_starts,
        ends=own_ends,
        configs=configs,
    )


def skew_percent(records: Sequence[int]) -> float:
    """How much the fullest partition lies above the mean (I-2); 0 = even."""
    total = sum(records)
    if len(records) < 2 or total <= 0:
        return 0.0
    return round(100 * (max(records) * len(records) / total - 1), 1)


def backlog(
    application: str, positions: Sequence[Position], snapshot: Snapshot
) -> list[BacklogRow]:
    """One application's lag per topic; positions of another cluster say nothing here."""
    ours = [p for p in positions if p.cluster_id in ("", snapshot.cluster_id)]
    read = {p.topic for p in ours}
    topics = [t for t in snapshot.topics if t.name in read]
    parts = lags(
        application,
        ours,
        {(t.name, n): end for t in topics for n, end in t.ends.items()},
        {(t.name, n): start for t in topics for n, start in t.starts.items()},
    )
    return [
        _backlog_row(application, t.name, [p for p in parts if p.topic == t.name]) for t in topics
    ]


def _backlog_row(application: str, topic: str, parts: Sequence[PartitionLag]) -> BacklogRow:
    return BacklogRow(
        application=application,
        topic=topic,
        position=sum(p.position for p in parts),
        end=sum(p.end_offset for p in parts),
        backlog=total(parts),
        lost=sum(p.lost for p in parts),
    )
