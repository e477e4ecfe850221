"""Applies metadata changes to the replica manager and the coordinators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.config.views import TopicConfig
from broker.coordinator.coordinators import Coordinators
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.metadata.delta import Changes
from broker.metadata.image import PartitionImage, ResourceType, TopicImage
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition

log = logging.getLogger("broker.server")


class ReplicaSubscriber:
    """Creates, changes and deletes this broker's replicas.

    Changes of a partition apply in their sequence: for one that still waits to be created only the
    newest state counts, and its deletion ends the wait. A partition whose record cannot be applied
    is left out, logged and counted; all others are applied.
    """

    def __init__(
        self,
        node_id: int,
        replicas: ReplicaManager,
        topic_config: Callable[[str], TopicConfig],
        failed: Callable[..., None],
    ) -> None:
        """`failed(text, *values)` is called while an exception is handled."""
        self._failed = failed
        self._node_id = node_id
        self._replicas = replicas
        self._topic_config = topic_config
        self._configs: dict[str, TopicConfig] = {}
        """Of the current image: the partitions of a topic share one."""

    def __call__(self, changes: Changes) -> None:
        """Apply the changes."""
        self._configs.clear()
        for topic in changes.deleted_topics:
            self._delete(
                [(topic.name, p.index) for p in topic.partitions if self._node_id in p.replicas]
            )
        # A reassignment may have ended: this broker may no longer have a replica.
        gone: list[tuple[str, int]] = []
        for topic, partition in changes.changed_partitions:
            if self._node_id in partition.replicas:
                put = partial(self._put, topic, partition)
                self._replicas.create_soon(topic.name, partition.index, put)
            elif self._replicas.has(topic.name, partition.index):
                gone.append((topic.name, partition.index))
        self._delete(gone)
        self._replicas.creation_queue.drain()
        self._update_configs(changes)
        if changes.changed_brokers:
            self._replicas.on_brokers_changed()

    def _delete(self, gone: list[tuple[str, int]]) -> None:
        for name, index in gone:
            try:
                self._replicas.delete_partition(name, index, is_last=(name, index) == gone[-1])
            except (LogError, DiskError) as error:
                log.error("%s-%d is not deleted: %s", name, index, error)
            except Exception:
                self._failed("%s-%d is not deleted", name, index)

    def _put(self, topic: TopicImage, partition: PartitionImage) -> None:
        try:
            config = self._configs.get(topic.name)
            if config is None:
                config = self._configs[topic.name] = self._topic_config(topic.name)
            self._replicas.create_partition(
                topic.name,
                topic.topic_id,
                partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                replicas=list(partition.replicas),
                isr=list(partition.isr),
                config=config,
                adding=partition.adding_replicas,
                removing=partition.removing_replicas,
                directories=partition.directories,
            )
        except LogError as error:
            # A disk error: clients get UNKNOWN_TOPIC_OR_PARTITION, other partitions are served.
            log.error("no replica of %s-%d here: %s", topic.name, partition.index, error)
        except Exception:
            self._failed("no replica of %s-%d here", topic.name, partition.index)

    def _update_configs(self, changes: Changes) -> None:
        kinds = {kind for kind, _ in changes.changed_configs}
        names = {name for kind, name in changes.changed_configs if kind is ResourceType.TOPIC}
        if ResourceType.BROKER in kinds:
            names = set(changes.image.topics)
        known = sorted(names & set(changes.image.topics))
        if known:
            self._replicas.update_configs({name: self._topic_config(name) for name in known})


class CoordinatorSubscriber:
    """Elects and resigns a coordinator with the leadership of each partition of its topic; tells
    every one which topics are deleted."""

    def __init__(self, replicas: ReplicaManager, coordinators: Coordinators) -> None:
        self._coordinators = coordinators
        replicas.leadership_listeners.append(self.on_leadership)

    def on_leadership(self, partition: Partition) -> None:
        """The local replica became the leader, or is no longer the leader, for any reason."""
        coordinator = self._coordinators.by_topic.get(partition.topic)
        if coordinator is not None:
            act = coordinator.on_elected if partition.is_leader else coordinator.on_resigned
            act(partition.index)

    def __call__(self, changes: Changes) -> None:
        """Apply the changes."""
        gone = frozenset(topic.name for topic in changes.deleted_topics)
        if gone:
            for coordinator in self._coordinators.by_topic.values():
                coordinator.forget_topics(gone - set(changes.image.topics))
