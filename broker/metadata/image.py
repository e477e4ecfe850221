"""The cluster's metadata as one frozen value.

In: nothing. Out: lookups. Never: changed in place; a new image is made by `MetadataDelta`.
Kafka's counterpart is MetadataImage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeVar

from broker.metadata.versions import ELR_VERSION, METADATA_VERSION

_K = TypeVar("_K")
_V = TypeVar("_V")

UNKNOWN_BROKER_EPOCH = -1
NO_LEADER = -1

UNASSIGNED_DIRECTORY = bytes(16)
"""A replica whose broker has not reported its directory yet (KIP-858)."""

LOST_DIRECTORY = bytes(15) + b"\x01"
"""A replica whose directory failed before the broker had reported which one it is in."""


def frozen(mapping: dict[_K, _V]) -> Mapping[_K, _V]:
    """A read-only view of a dict that is not written any more."""
    return MappingProxyType(mapping)


def _empty() -> Mapping[Any, Any]:
    return frozen({})


class ResourceType(IntEnum):
    """What a configuration belongs to (Kafka's ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class LeaderRecoveryState(IntEnum):
    """Whether a leader was elected outside the in-sync set and has not reported its recovery since
    (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """Levels of one feature that a node can work with, both ends inclusive."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] = ()
    is_migrating_zk_broker: bool = False
    last_unfenced_epoch: int = field(default=UNKNOWN_BROKER_EPOCH, compare=False)
    """Epoch of the last registration under which the broker was unfenced. Not in any record:
    after a snapshot it is unknown, and `epoch` stands for it."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync: not fenced and not about to stop (KIP-841)."""
        return not self.fenced and not self.in_controlled_shutdown

    def is_continued_by(self, previous_epoch: int) -> bool:
        """Whether a restarted broker that verifies the log of `previous_epoch` has all this
        registration is counted on for.

        A registration that was never unfenced has joined no in-sync set, and the broker may have
        been killed before it stored that epoch: the one before it counts as well (ADR 0032).
        """
        known = self.last_unfenced_epoch != UNKNOWN_BROKER_EPOCH
        oldest = self.last_unfenced_epoch if known else self.epoch
        return oldest <= previous_epoch <= self.epoch

    def has_online_directory(self, directory: bytes) -> bool:
        """Whether a replica said to lie in `directory` can be served by this broker."""
        if directory == LOST_DIRECTORY:
            return False
        if directory == UNASSIGNED_DIRECTORY or not self.log_dirs:
            return True
        return directory in self.log_dirs


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A registered controller (KIP-919)."""

    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. `leader` is -1 when it has none.

    Invariant: `isr` and `elr` are disjoint parts of `replicas`; a leader is in `isr`.
    """

    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether its replicas are being moved."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> bytes:
        """The log directory of a broker's replica, UNASSIGNED_DIRECTORY if it is not reported."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. Invariant: `partitions` have the indexes 0..n-1, ascending."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...] = ()


@dataclass(frozen=True, slots=True)
class AclImage:
    """One rule of access: who may do what with what, and from where. Records and messages have the
    same fields: `AclImage.of` reads them, `dataclasses.asdict` writes them."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, rule: object) -> AclImage:
        """The rule in a record or a message, whose fields have these names."""
        return cls(*[getattr(rule, name) for name in _ACL_FIELDS])


_ACL_FIELDS = tuple(one.name for one in fields(AclImage))


ConfigKey = tuple[ResourceType, str]
QuotaEntity = tuple[tuple[str, str | None], ...]
"""Type and name of each part of an entity, by type; a name of None is the default of its type."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything up to and including the record at `offset` of `__cluster_metadata-0`.

    `scram`, `delegation_tokens` and `transaction` are kept as the records they came in, as a
    snapshot must carry them on.
    """

    cluster_id: str = ""
    offset: int = -1
    epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=_empty)
    topics: Mapping[str, TopicImage] = field(default_factory=_empty)
    topic_names: Mapping[bytes, str] = field(default_factory=_empty)
    configs: Mapping[ConfigKey, Mapping[str, str]] = field(default_factory=_empty)
    features: Mapping[str, int] = field(default_factory=_empty)
    next_producer_id: int = 0
    controllers: Mapping[int, ControllerImage] = field(default_factory=_empty)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=_empty)
    acls: Mapping[bytes, AclImage] = field(default_factory=_empty)
    scram: Mapping[tuple[int, str], Any] = field(default_factory=_empty)
    delegation_tokens: Mapping[str, Any] = field(default_factory=_empty)
    zk_migration_state: int = 0
    transaction: tuple[object, ...] | None = None

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic with this id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic_id: bytes, index: int) -> PartitionImage | None:
        """One partition, by its topic's id."""
        topic = self.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """Every partition, in the order of the topics' creation."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                yield topic, partition

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """The topic's own settings; `broker/config` has the defaults."""
        return self.configs.get((ResourceType.TOPIC, topic), {})

    def alive_brokers(self) -> list[BrokerImage]:
        """Brokers that are not fenced, in the order of their ids."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered and may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version, 0 where there is none (ZooKeeper)."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def elr_enabled(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) > 0
