"""What a run of metadata records changes: from one image to the next.

In: the records of `__cluster_metadata-0`, in order. Out: the next image, and which topics,
partitions, configurations and brokers differ, so that each room looks only at its own.
Never: I/O; and nobody else may change an image (decide, record, replay). Kafka: MetadataDelta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from broker.metadata.image import (
    BrokerImage,
    ConfigKey,
    Endpoint,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    frozen,
)

LEADER_NOT_CHANGED = -2
"""PartitionChangeRecord's way of saying that the leader stays."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two images, by name. A topic made anew is in both topic sets."""

    image: MetadataImage
    deleted_topics: tuple[TopicImage, ...] = ()
    changed_partitions: tuple[tuple[TopicImage, PartitionImage], ...] = ()
    changed_configs: tuple[ConfigKey, ...] = ()


@dataclass(slots=True)
class MetadataDelta:
    """Records replayed on a copy of `base`.

    Invariant: `base` is never touched; `apply` may be called once.
    """

    base: MetadataImage
    _brokers: dict[int, BrokerImage] = field(init=False)
    _topics: dict[str, TopicImage] = field(init=False)
    _names: dict[bytes, str] = field(init=False)
    _configs: dict[ConfigKey, dict[str, str]] = field(init=False)
    _features: dict[str, int] = field(init=False)
    _next_producer_id: int = field(init=False)
    _deleted: list[TopicImage] = field(default_factory=list)
    _partitions: dict[tuple[bytes, int], None] = field(default_factory=dict)
    _changed_configs: dict[ConfigKey, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._brokers = dict(self.base.brokers)
        self._topics = dict(self.base.topics)
        self._names = dict(self.base.topic_names)
        self._configs = {key: dict(values) for key, values in self.base.configs.items()}
        self._features = dict(self.base.features)
        self._next_producer_id = self.base.next_producer_id

    def replay(self, record: object) -> None:
        """Take in one record. A kind that this broker does not use yet changes nothing."""
        handler = _REPLAY.get(type(record).__name__)
        if handler is not None:
            handler(self, record)

    def apply(self, offset: int, epoch: int) -> Changes:
        """The next image, `offset` being that of the last record replayed."""
        image = replace(
            self.base,
            offset=offset,
            epoch=epoch,
            brokers=frozen(self._brokers),
            topics=frozen(self._topics),
            topic_names=frozen(self._names),
            configs=frozen({key: frozen(values) for key, values in self._configs.items()}),
            features=frozen(self._features),
            next_producer_id=self._next_producer_id,
        )
        return Changes(
            image=image,
            deleted_topics=tuple(self._deleted),
            changed_partitions=tuple(self._surviving_partitions(image)),
            changed_configs=tuple(self._changed_configs),
        )

    def _surviving_partitions(
        self, image: MetadataImage
    ) -> list[tuple[TopicImage, PartitionImage]]:
        found = []
        for topic_id, index in self._partitions:
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                found.append((topic, topic.partitions[index]))
        return found

    # -- one method per record kind ---------------------------------------------------

    def _register_broker(self, record: Any) -> None:
        self._brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(
                Endpoint(end.name, end.host, end.port, end.security_protocol)
                for end in record.end_points
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
        )

    def _change_registration(self, record: Any) -> None:
        broker = self._brokers[record.broker_id]
        fenced = {1: True, -1: False}.get(record.fenced, broker.fenced)
        stopping = bool(record.in_controlled_shutdown) or broker.in_controlled_shutdown
        self._brokers[record.broker_id] = replace(
            broker, fenced=fenced, in_controlled_shutdown=stopping
        )

    def _unregister_broker(self, record: Any) -> None:
        self._brokers.pop(record.broker_id, None)

    def _topic(self, record: Any) -> None:
        self._topics[record.name] = TopicImage(record.name, record.topic_id)
        self._names[record.topic_id] = record.name

    def _partition(self, record: Any) -> None:
        partition = PartitionImage(
            index=record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories or ()),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
        )
        topic = self._topics[self._names[record.topic_id]]
        others = {held.index: held for held in topic.partitions} | {partition.index: partition}
        self._put_partitions(topic, others, partition.index)

    def _change_partition(self, record: Any) -> None:
        topic = self._topics[self._names[record.topic_id]]
        old = topic.partitions[record.partition_id]
        moved = record.leader != LEADER_NOT_CHANGED
        partition = replace(
            old,
            leader=record.leader if moved else old.leader,
            leader_epoch=old.leader_epoch + (1 if moved else 0),
            partition_epoch=old.partition_epoch + 1,
            isr=old.isr if record.isr is None else tuple(record.isr),
            replicas=old.replicas if record.replicas is None else tuple(record.replicas),
        )
        others = {held.index: held for held in topic.partitions} | {partition.index: partition}
        self._put_partitions(topic, others, partition.index)

    def _put_partitions(
        self, topic: TopicImage, partitions: dict[int, PartitionImage], changed: int
    ) -> None:
        ordered = tuple(partitions[index] for index in sorted(partitions))
        self._topics[topic.name] = replace(topic, partitions=ordered)
        self._partitions[topic.topic_id, changed] = None

    def _remove_topic(self, record: Any) -> None:
        topic = self._topics.pop(self._names.pop(record.topic_id))
        self._configs.pop((ResourceType.TOPIC, topic.name), None)
        self._deleted.append(topic)

    def _config(self, record: Any) -> None:
        key = (ResourceType(record.resource_type), record.resource_name)
        values = self._configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self._configs[key]
        self._changed_configs[key] = None

    def _feature_level(self, record: Any) -> None:
        if record.feature_level:
            self._features[record.name] = record.feature_level
        else:
            self._features.pop(record.name, None)

    def _producer_ids(self, record: Any) -> None:
        self._next_producer_id = record.next_producer_id


_REPLAY: dict[str, Callable[[MetadataDelta, Any], None]] = {
    "RegisterBrokerRecord": MetadataDelta._register_broker,
    "BrokerRegistrationChangeRecord": MetadataDelta._change_registration,
    "UnregisterBrokerRecord": MetadataDelta._unregister_broker,
    "TopicRecord": MetadataDelta._topic,
    "PartitionRecord": MetadataDelta._partition,
    "PartitionChangeRecord": MetadataDelta._change_partition,
    "RemoveTopicRecord": MetadataDelta._remove_topic,
    "ConfigRecord": MetadataDelta._config,
    "FeatureLevelRecord": MetadataDelta._feature_level,
    "ProducerIdsRecord": MetadataDelta._producer_ids,
}
