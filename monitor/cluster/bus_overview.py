"""The broker's own picture for the bus page: topics, groups, brokers, and the backlog of our
applications.

In: an address. Out: one `BusOverview`, at most every `FRESH_SECONDS`. Never: a change on the
broker; a wait on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from bus.client.kafka.admin import Admin
from bus.client.model import GroupDescription, TopicDescription, TopicPartition
from bus.contracts.groups import application_group
from bus.contracts.topics import TOPICS
from bus.errors import BusError
from bus.settings import BusSettings
from ingest.store.port import Position
from monitor.models.lag import PartitionLag, lags, total

FRESH_SECONDS = 2.0
REQUEST_SECONDS = 5.0
MAX_GROUPS = 200  # asked one by one; more would not be read
OVERVIEW_CONFIGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "compression.type",
    "segment.bytes",
)

T = TypeVar("T")


class TopicOverview(msgspec.Struct, frozen=True, kw_only=True):
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


class GroupOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer group with its lag, in total and per topic; `offsets` maps topic and partition
    to the committed offset."""

    group_id: str
    state: str
    members: int
    lag: int
    topics: dict[str, int]
    offsets: dict[str, dict[int, int]] = {}


class BrokerOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the cluster."""

    broker_id: int
    host: str
    port: int
    controller: bool


class BusOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one look. `faults` names what the broker did not answer."""

    cluster_id: str
    brokers: tuple[BrokerOverview, ...]
    topics: tuple[TopicOverview, ...]
    groups: tuple[GroupOverview, ...]
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


class BusUnavailable(Exception):
    """No broker answers; the text says which was asked."""


class BusOverviewReader:
    """Asks in a thread, one question at a time; the last snapshot serves everybody for two
    seconds.
    """

    def __init__(self, bus: BusSettings, now_ms: Callable[[], int]) -> None:
        self._bus, self._servers = bus, bus.bootstrap_servers
        self._now_ms = now_ms
        self._admin: Admin | None = None
        self._last: BusOverview | None = None
        self._last_at = 0.0
        self._lock = asyncio.Lock()

    async def overview(self) -> BusOverview:
        """The cluster now. Raises `BusUnavailable`."""
        async with self._lock:
            if self._last is None or time.monotonic() - self._last_at > FRESH_SECONDS:
                self._last = await asyncio.to_thread(self._query)
                self._last_at = time.monotonic()
            return self._last

    def forget(self) -> None:
        """Something was changed: the next question is asked anew."""
        self._last = None

    def _query(self) -> BusOverview:
        if self._admin is None:
            self._admin = Admin(
                self._bus,
                client_id="databus-console",
                timeout_s=REQUEST_SECONDS,
                overrides={"log_level": 0, "reconnect.backoff.max.ms": 2000},
            )
        admin = self._admin
        try:
            cluster, topics = admin.describe_cluster()
        except BusError as error:
            raise BusUnavailable(f"{self._servers}: {error.detail}") from error
        led = [
            TopicPartition(t.name, p.index) for t in topics for p in t.partitions if p.leader >= 0
        ]
        names = [topic.name for topic in topics]
        faults: list[str] = []
        starts = _tried(faults, "start offsets", lambda: admin.start_offsets(led)) or {}
        ends = _tried(faults, "end offsets", lambda: admin.end_offsets(led)) or {}
        configs = (
            _tried(faults, "topic configuration", lambda: admin.all_topic_configs(names)) or {}
        )
        groups = _tried(faults, "groups", lambda: admin.describe_groups(_some_groups(admin))) or ()
        return BusOverview(
            cluster_id=cluster.cluster_id,
            brokers=tuple(
                BrokerOverview(
                    broker_id=b.broker_id,
                    host=b.host,
                    port=b.port,
                    controller=b.broker_id == cluster.controller_id,
                )
                for b in cluster.brokers
            ),
            topics=tuple(
                _topic(topic, starts, ends, _chosen_configs(configs.get(topic.name, {})))
                for topic in topics
            ),
            groups=tuple(_group(group, ends) for group in groups),
            taken_at_ms=self._now_ms(),
            faults=tuple(faults),
        )


def _some_groups(admin: Admin) -> list[str]:
    return admin.groups()[:MAX_GROUPS]


def _group(group: GroupDescription, ends: Mapping[TopicPartition, int]) -> GroupOverview:
    topics: dict[str, int] = {}
    offsets: dict[str, dict[int, int]] = {}
    for place, offset in group.committed.items():
        offsets.setdefault(place.topic, {})[place.partition] = offset
        behind = max(0, ends.get(place, offset) - offset)
        topics[place.topic] = topics.get(place.topic, 0) + behind
    return GroupOverview(
        group_id=group.group,
        state=group.state.upper(),
        members=len(group.members),
        lag=sum(topics.values()),
        topics=topics,
        offsets=offsets,
    )


def _tried(faults: list[str], what: str, ask: Callable[[], T]) -> T | None:
    """A broker that lacks one answer still shows the others."""
    try:
        return ask()
    except BusError as error:
        faults.append(f"{what}: {error}")
        return None


def _chosen_configs(entries: Mapping[str, str]) -> dict[str, str]:
    return {key: entries[key] for key in OVERVIEW_CONFIGS if key in entries}


def _topic(
    topic: TopicDescription,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    configs: dict[str, str],
) -> TopicOverview:
    contract = TOPICS.get(topic.name)
    own = [TopicPartition(topic.name, partition.index) for partition in topic.partitions]
    own_starts = {place.partition: starts.get(place, 0) for place in own}
    own_ends = {place.partition: ends.get(place, 0) for place in own}
    return TopicOverview(
        name=topic.name,
        internal=topic.internal,
        flow=contract.flow.value if contract else "",
        key=contract.key if contract else "",
        partitions=len(topic.partitions),
        replicas=max((len(p.replicas) for p in topic.partitions), default=0),
        under_replicated=sum(p.under_replicated for p in topic.partitions),
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


def group_positions(application: str, snapshot: BusOverview) -> list[Position]:
    """The positions of an application that keeps them as a consumer group (or publishes them)."""
    return [
        Position(
            application=application, cluster_id="", topic=topic, topic_id="", partition=number,
            end_offset=offset,
        )
        for group in snapshot.groups
        if group.group_id == application_group(application)
        for topic, offsets in group.offsets.items()
        for number, offset in offsets.items()
    ]  # fmt: skip


def backlog(
    application: str, positions: Sequence[Position], snapshot: BusOverview
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
