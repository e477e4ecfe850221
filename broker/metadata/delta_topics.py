"""The topics' part of a delta: topics and partitions created, changed and deleted. Pure.

In: records. Out: the topics of the next image, what was deleted, which partitions changed.
Never: a copy of topics that no record changes; there may be ten thousand partitions beside the one
that changes. A record of an unknown topic raises LookupError: it is stored, so the caller that
replays it decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker.metadata.image import (
    LeaderRecoveryState,
    MetadataImage,
    PartitionImage,
    TopicImage,
    frozen,
)
from bus.protocol.generated.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

LEADER_NOT_CHANGED = -2
"""PartitionChangeRecord's way of saying that the leader stays."""

RECOVERY_NOT_CHANGED = -1
"""The same of the leader's recovery state."""


@dataclass(slots=True)
class TopicsDelta:
    """Topics of `base` with records replayed on top.

    Invariant: `base` is never touched; a dict is copied when the first record changes it.
    """

    base: MetadataImage
    deleted: list[TopicImage] = field(default_factory=list)
    changed: dict[tuple[bytes, int], None] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    """Partitions whose number leaves a gap; known only when all records have been replayed."""
    _topics: dict[str, TopicImage] | None = None
    _names: dict[bytes, str] | None = None
    _pending: dict[bytes, dict[int, PartitionImage]] = field(default_factory=dict)

    def topic(self, record: TopicRecord) -> None:
        """A new topic, without partitions yet."""
        topics, names = self._writable()
        topics[record.name] = TopicImage(record.name, record.topic_id)
        names[record.topic_id] = record.name

    def partition(self, record: PartitionRecord) -> None:
        """A partition as a whole."""
        if record.topic_id not in (self.base.topic_names if self._names is None else self._names):
            raise LookupError("a partition of a topic that does not exist")
        replicas = tuple(record.replicas)
        partition = PartitionImage(
            index=record.partition_id,
            replicas=replicas,
            isr=_shared(record.isr, replicas),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories or ()),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            recovery=LeaderRecoveryState(record.leader_recovery_state),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )
        self._put(record.topic_id, partition)

    def change(self, record: PartitionChangeRecord) -> None:
        """What differs in one partition; every change raises the partition epoch."""
        old = self._current(record.topic_id, record.partition_id)
        moved = record.leader != LEADER_NOT_CHANGED
        replicas = old.replicas if record.replicas is None else tuple(record.replicas)
        recovery = record.leader_recovery_state
        partition = PartitionImage(
            index=old.index,
            replicas=replicas,
            isr=old.isr if record.isr is None else _shared(record.isr, replicas),
            leader=record.leader if moved else old.leader,
            leader_epoch=old.leader_epoch + (1 if moved else 0),
            partition_epoch=old.partition_epoch + 1,
            directories=_or(record.directories, old.directories),
            removing_replicas=_or(record.removing_replicas, old.removing_replicas),
            adding_replicas=_or(record.adding_replicas, old.adding_replicas),
            recovery=old.recovery
            if recovery == RECOVERY_NOT_CHANGED
            else LeaderRecoveryState(recovery),
            elr=_or(record.eligible_leader_replicas, old.elr),
            last_known_elr=_or(record.last_known_elr, old.last_known_elr),
        )
        self._put(record.topic_id, partition)

    def remove(self, record: RemoveTopicRecord) -> TopicImage:
        """A topic goes, with all its partitions."""
        topics, names = self._writable()
        name = names.pop(record.topic_id, None)
        if name is None:
            raise LookupError("a topic is removed that does not exist")
        topic = self._merged(topics.pop(name))
        self._pending.pop(record.topic_id, None)
        self.deleted.append(topic)
        return topic

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Eligible leader replicas of one topic, or of all where none is named, are void."""
        topics = self._topics if self._topics is not None else self.base.topics
        wanted = [record.topic_name] if record.topic_name else list(topics)
        for name in wanted:
            topic = topics.get(name)
            if topic is None:
                continue
            for partition in self._merged(topic).partitions:
                if partition.elr or partition.last_known_elr:
                    bare = replace(
                        partition,
                        elr=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )
                    self._put(topic.topic_id, bare)

    def apply(self) -> tuple[Mapping[str, TopicImage], Mapping[bytes, str]]:
        """Topics by name and names by id of the next image."""
        if self._pending:
            topics, names = self._writable()
            for topic_id in self._pending:
                name = names[topic_id]
                topics[name] = self._merged(topics[name])
            self._pending = {}
        if self._topics is None or self._names is None:
            return self.base.topics, self.base.topic_names
        return frozen(self._topics), frozen(self._names)

    def surviving(self, image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """Changed partitions of topics that still exist."""
        for topic_id, index in self.changed:
            topic = image.topic_by_id(topic_id)
            if topic is not None and index < len(topic.partitions):
                yield topic, topic.partitions[index]

    def _writable(self) -> tuple[dict[str, TopicImage], dict[bytes, str]]:
        if self._topics is None or self._names is None:
            self._topics = dict(self.base.topics)
            self._names = dict(self.base.topic_names)
        return self._topics, self._names

    def _put(self, topic_id: bytes, partition: PartitionImage) -> None:
        self._pending.setdefault(topic_id, {})[partition.index] = partition
        self.changed[topic_id, partition.index] = None

    def _current(self, topic_id: bytes, index: int) -> PartitionImage:
        held = self._pending.get(topic_id, {}).get(index)
        if held is not None:
            return held
        topics = self._topics if self._topics is not None else self.base.topics
        names = self._names if self._names is not None else self.base.topic_names
        return topics[names[topic_id]].partitions[index]

    def _merged(self, topic: TopicImage) -> TopicImage:
        """The topic with its open partitions in their places."""
        opened = self._pending.get(topic.topic_id)
        if not opened:
            return topic
        partitions = list(topic.partitions)
        for index in sorted(opened):
            if index < len(partitions):
                partitions[index] = opened[index]
            elif index == len(partitions):
                partitions.append(opened[index])
            else:
                self.skipped.append(f"partition {index} of {topic.name}")
        return TopicImage(topic.name, topic.topic_id, tuple(partitions))


def _shared(given: list[int], replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas' own tuple if the list is equal: most in-sync sets are, and ten thousand copies
    would cost memory."""
    made = tuple(given)
    return replicas if made == replicas else made


def _or(given: list[Any] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
    return old if given is None else tuple(given)
