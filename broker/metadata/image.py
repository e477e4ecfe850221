"""The cluster's metadata as one frozen value: what every room of the broker knows of the world.

In: nothing. Out: lookups. Never: changed in place; a new image is made by `MetadataDelta`.
Kafka's counterpart is MetadataImage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def frozen(mapping: dict[_K, _V]) -> Mapping[_K, _V]:
    """A read-only view of a dict that nobody else will write."""
    return MappingProxyType(mapping)


class ResourceType(IntEnum):
    """What a configuration belongs to (Kafka's ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


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


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. `leader` is -1 when it has none."""

    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. Invariant: `partitions` are 0..n-1 in order."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...] = ()


ConfigKey = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything up to and including the record at `offset` of `__cluster_metadata-0`."""

    cluster_id: str = ""
    offset: int = -1
    epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: frozen({}))
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: frozen({}))
    topic_names: Mapping[bytes, str] = field(default_factory=lambda: frozen({}))
    configs: Mapping[ConfigKey, Mapping[str, str]] = field(default_factory=lambda: frozen({}))
    features: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    next_producer_id: int = 0

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic with this id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """What was set for this topic itself; defaults are the configuration room's."""
        return self.configs.get((ResourceType.TOPIC, topic), {})

    def alive_brokers(self) -> list[BrokerImage]:
        """Brokers that may lead, in the order of their ids."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]
