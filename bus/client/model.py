"""What a client sees of a cluster, as plain values: partitions, records, brokers, topics, groups.

The one model of all clients: `kafka` and `admin` fill it, pure modules take it. Never: a question
to a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TopicAndPartition = tuple[str, int]
"""The same as `TopicPartition` where it comes from a store or a message as a plain tuple."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """What a group has committed for a partition: the next offset to read, and a text with it."""

    offset: int
    metadata: str


class KeyedValue(NamedTuple):
    """Of a record that is not on the bus yet."""

    key: bytes
    value: bytes


class ConsumedRecord(NamedTuple):
    """A record from the bus. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def header(self, name: str) -> bytes | None:
        """The last header of a name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Identity of a cluster and of the topics that are read."""

    cluster_id: str
    topic_ids: dict[str, str]
    partitions: tuple[TopicAndPartition, ...]

    def with_topics_of(self, newer: ClusterIdentity, topics: Collection[str]) -> ClusterIdentity:
        """These topics as `newer` has them, or does not have them any more; the others as here."""
        kept = {t: topic_id for t, topic_id in self.topic_ids.items() if t not in topics}
        taken = {t: topic_id for t, topic_id in newer.topic_ids.items() if t in topics}
        partitions = [p for p in self.partitions if p[0] in kept]
        partitions += [p for p in newer.partitions if p[0] in taken]
        return ClusterIdentity(newer.cluster_id, kept | taken, tuple(sorted(partitions)))


NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that is registered. `fenced`: known, but may not lead (KRaft)."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers, and which of them takes the administrative requests."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]

    @property
    def alive(self) -> tuple[BrokerDescription, ...]:
        """Brokers that may lead and take replicas."""
        return tuple(broker for broker in self.brokers if not broker.fenced)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition. `leader` is -1 while there is none; `elr` are eligible leader replicas outside
    the ISR (KIP-966); offsets are -1 where they were not asked for."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    log_start_offset: int = -1
    end_offset: int = -1

    @property
    def under_replicated(self) -> bool:
        """Fewer replicas in sync than assigned (T-DS-06)."""
        return len(self.isr) < len(self.replicas)

    @property
    def unavailable(self) -> bool:
        """No leader (T-DS-07)."""
        return self.leader < 0

    @property
    def preferred(self) -> int:
        """The replica that should lead (C-GEN-06)."""
        return self.replicas[0] if self.replicas else NO_LEADER


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic; partitions ascend. `topic_id` is empty and `configs` too where not asked for."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as Kafka's tool says it (T-DS-03)."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica in a log directory. `future`: it is moving there from another directory."""

    size_bytes: int
    offset_lag: int
    future: bool = False


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory of a broker; `error` is 0 while its disk works."""

    path: str
    error: int
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaInfo]

    @property
    def size_bytes(self) -> int:
        """What its logs occupy."""
        return sum(replica.size_bytes for replica in self.replicas.values())


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or an observer of the metadata quorum, as its leader sees it."""

    node_id: int
    directory_id: bytes
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum; `endpoints` says where the voters listen."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[tuple[str, str, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One metadata record as it stands in the log; `kind` as Kafka names it."""

    offset: int
    epoch: int
    timestamp_ms: int
    kind: str
    record: object


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on the move."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration key; `source` as ConfigSource on the wire, `value` None for secrets."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None = None
    synonyms: tuple[tuple[str, str | None, int], ...] = ()

    @property
    def source_name(self) -> str:
        """In words."""
        return CONFIG_SOURCES.get(self.source, str(self.source))


CONFIG_SOURCES = {
    1: "topic",
    2: "broker, while running",
    3: "all brokers, while running",
    4: "server.properties",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
DEFAULT_SOURCE = 5


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a group."""

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group; `committed` and `lag` by partition."""

    group: str
    state: str
    protocol: str
    members: tuple[MemberDescription, ...]
    committed: Mapping[TopicPartition, int]
    lag: Mapping[TopicPartition, int]


GroupOffsets = Mapping[TopicPartition, OffsetAndMetadata]
"""What one group has committed."""


@dataclass(frozen=True, slots=True)
class StoredReplica:
    """One replica on one broker."""

    directory: str = ""
    size_bytes: int = -1
