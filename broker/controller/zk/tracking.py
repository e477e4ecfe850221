"""Which states partitions and replicas are in, and what brokers must be told of a change.

In: changes of the controller's image. Out: moves of both state machines, entries in the lines.
Never: I/O. Who hears what (chapter 5, section 18): LeaderAndIsr goes to all replicas of a
partition whose leader, epoch or replicas changed, UpdateMetadata of every change to everybody,
StopReplica to replicas that were taken away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from broker.controller.state_changes import tell_unclean
from broker.controller.zk.channels import Lines
from broker.controller.zk.load import UNBORN_EPOCH
from broker.controller.zk.states import (
    IllegalTransition,
    PartitionKey,
    PartitionState,
    ReplicaKey,
    ReplicaState,
    StateMachine,
)
from broker.metadata.delta import Changes
from broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage

log = logging.getLogger("broker.controller.state_change")

_REMOVAL = (
    ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)  # fmt: skip
"""A replica taken away by a reassignment goes through all of them at once (G-23)."""


class Tracking:
    """Both state machines, kept in step with the image."""

    def __init__(
        self,
        partitions: StateMachine[PartitionKey, PartitionState],
        replicas: StateMachine[ReplicaKey, ReplicaState],
        lines: Lines,
        on_unclean: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`on_unclean` hears how many unclean elections there were."""
        self._on_unclean = on_unclean
        self._partitions = partitions
        self._replicas = replicas
        self._lines = lines

    def begin(self, image: MetadataImage, leaving: Iterable[TopicImage]) -> None:
        """The states a controller finds (C-PSM-30, C-RSM-24), and lines to whoever is here."""
        alive = image.brokers
        for topic in (*image.topics.values(), *leaving):
            for partition in topic.partitions:
                self._partitions.start(
                    (topic.name, partition.index), _state_found(partition, alive)
                )
                for replica in partition.replicas:
                    self._replicas.start(
                        (topic.name, partition.index, replica),
                        ReplicaState.ONLINE
                        if replica in alive
                        else ReplicaState.DELETION_INELIGIBLE,
                    )
        for line in self._lines.all():
            if line.broker_id not in alive:
                self._lines.close(line.broker_id)
        for broker_id, broker in sorted(alive.items()):
            held = self._lines.get(broker_id)
            if held is None or held.broker_epoch != broker.epoch:
                self._lines.open(broker_id, broker.epoch)

    def tell_everything(self, image: MetadataImage) -> None:
        """Every broker is told all it may have missed (C-FO-09)."""
        for line in self._lines.all():
            line.due.full = True
        for topic, partition in image.partitions():
            self._tell_replicas(topic, partition)

    def tell_broker(self, image: MetadataImage, broker_id: int) -> None:
        """A broker that has just come: everything (C-BRK-03, C-BRK-04)."""
        line = self._lines.get(broker_id)
        if line is None:
            return
        line.due.full = True
        for topic, partition in image.partitions():
            if broker_id in partition.replicas and partition.partition_epoch != UNBORN_EPOCH:
                line.due.isr[topic.topic_id, partition.index] = None

    def follow(self, changes: Changes) -> None:
        """Take in one change of the image."""
        for broker_id in changes.changed_brokers:
            self._follow_broker(changes, broker_id)
        for topic, partition in changes.changed_partitions:
            before = changes.previous.partition(topic.topic_id, partition.index)
            self._follow_partition(changes.image, topic, partition, before)
            self._tell(topic, partition, before)
        self._on_unclean(tell_unclean(changes))

    # -- states ---------------------------------------------------------------------------

    def _follow_broker(self, changes: Changes, broker_id: int) -> None:
        here = broker_id in changes.image.brokers
        was = changes.previous.brokers.get(broker_id)
        if here and was is None:
            self._lines.open(broker_id, changes.image.brokers[broker_id].epoch)
        elif not here:
            self._lines.close(broker_id)
        if here != (was is not None):
            target = ReplicaState.ONLINE if here else ReplicaState.OFFLINE
            for topic, partition in changes.image.partitions():
                if broker_id in partition.replicas:
                    self._move_replica((topic.name, partition.index, broker_id), target)
        for line in self._lines.all():
            line.due.brokers = True

    def _follow_partition(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition: PartitionImage,
        before: PartitionImage | None,
    ) -> None:
        key = (topic.name, partition.index)
        if self._partitions.state(key) is PartitionState.NON_EXISTENT:
            self._move_partition(key, PartitionState.NEW, partition)
        if partition.partition_epoch != UNBORN_EPOCH:
            target = (
                PartitionState.OFFLINE if partition.leader == NO_LEADER else PartitionState.ONLINE
            )
            self._move_partition(key, target, partition)
        for replica in partition.replicas:
            replica_key = (*key, replica)
            if self._replicas.state(replica_key) is ReplicaState.NON_EXISTENT:
                self._move_replica(replica_key, ReplicaState.NEW)
                here = replica in image.brokers
                self._move_replica(
                    replica_key, ReplicaState.ONLINE if here else ReplicaState.OFFLINE
                )
        for replica in () if before is None else before.replicas:
            if replica not in partition.replicas:
                for state in _REMOVAL:
                    self._move_replica((*key, replica), state)

    def _move_partition(
        self, key: PartitionKey, target: PartitionState, partition: PartitionImage
    ) -> None:
        try:
            before = self._partitions.move(key, target)
        except IllegalTransition as error:
            log.error("partition %s", error)
            return
        log.info(
            "%s-%d %s → %s leader %d epoch %d isr %s replicas %s",
            *key, before.name, target.name, partition.leader, partition.leader_epoch,
            list(partition.isr), list(partition.replicas),
        )  # fmt: skip

    def _move_replica(self, key: ReplicaKey, target: ReplicaState) -> None:
        try:
            self._replicas.move(key, target)
        except IllegalTransition as error:
            log.error("replica %s", error)

    # -- telling --------------------------------------------------------------------------

    def _tell(
        self, topic: TopicImage, partition: PartitionImage, before: PartitionImage | None
    ) -> None:
        if partition.partition_epoch == UNBORN_EPOCH:
            return
        if before is None or _led_differently(before, partition):
            self._tell_replicas(topic, partition)
        for line in self._lines.all():
            line.due.metadata[topic.topic_id, partition.index] = None
        for replica in () if before is None else before.replicas:
            line_of = self._lines.get(replica)
            if replica not in partition.replicas and line_of is not None:
                line_of.due.isr.pop((topic.topic_id, partition.index), None)
                line_of.due.stops[topic.name, partition.index] = partition.leader_epoch

    def _tell_replicas(self, topic: TopicImage, partition: PartitionImage) -> None:
        if partition.partition_epoch == UNBORN_EPOCH:
            return
        for replica in partition.replicas:
            line = self._lines.get(replica)
            if line is not None:
                line.due.isr[topic.topic_id, partition.index] = None
                line.due.stops.pop((topic.name, partition.index), None)


def _state_found(partition: PartitionImage, alive: object) -> PartitionState:
    if partition.partition_epoch == UNBORN_EPOCH:
        return PartitionState.NEW
    if partition.leader in alive:  # type: ignore[operator]  # a mapping by broker id
        return PartitionState.ONLINE
    return PartitionState.OFFLINE


def _led_differently(before: PartitionImage, after: PartitionImage) -> bool:
    return (
        before.leader != after.leader
        or before.leader_epoch != after.leader_epoch
        or before.replicas != after.replicas
        or before.adding_replicas != after.adding_replicas
        or before.removing_replicas != after.removing_replicas
    )
