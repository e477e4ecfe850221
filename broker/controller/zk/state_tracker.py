"""The states of partitions and replicas, and which brokers must be sent a change.

In: changes of the controller's image. Out: transitions of both state machines, updates in the
brokers' queues. Never: I/O. Who gets what (chapter 5, section 18): LeaderAndIsr goes to all
replicas of a partition whose leader, epoch or replicas changed, UpdateMetadata of every change to
all brokers, StopReplica to replicas that were removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable

from broker.controller.state_changes import log_state_changes, log_unclean_elections
from broker.controller.zk.channels import BrokerRequestQueues
from broker.controller.zk.state_machines import (
    ControllerPartitionState,
    ControllerReplicaState,
    IllegalTransition,
    PartitionAndReplica,
    PartitionKey,
    StateMachine,
)
from broker.controller.zk.state_reader import UNINITIALIZED_EPOCH
from broker.metadata.delta import Changes
from broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage

log = logging.getLogger("broker.controller.state_change")

_REMOVAL = (
    ControllerReplicaState.OFFLINE, ControllerReplicaState.DELETION_STARTED,
    ControllerReplicaState.DELETION_SUCCESSFUL, ControllerReplicaState.NON_EXISTENT,
)  # fmt: skip
"""A replica removed by a reassignment passes through all of them at once (G-23)."""


class StateTracker:
    """Both state machines, kept consistent with the image."""

    def __init__(
        self,
        partitions: StateMachine[PartitionKey, ControllerPartitionState],
        replicas: StateMachine[PartitionAndReplica, ControllerReplicaState],
        queues: BrokerRequestQueues,
        controller_id: int,
        controller_epoch: int,
        on_unclean: Callable[[int], None],
    ) -> None:
        """`on_unclean` is called with the number of unclean elections."""
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._on_unclean = on_unclean
        self._partitions = partitions
        self._replicas = replicas
        self._queues = queues

    def initialize(self, image: MetadataImage, leaving: Iterable[TopicImage]) -> None:
        """Sets the states a new controller finds (C-PSM-30, C-RSM-24); opens queues for live
        brokers."""
        alive = image.brokers
        for topic in (*image.topics.values(), *leaving):
            for partition in topic.partitions:
                self._partitions.set_initial(
                    (topic.name, partition.index), _initial_partition_state(partition, alive)
                )
                for replica in partition.replicas:
                    self._replicas.set_initial(
                        (topic.name, partition.index, replica),
                        ControllerReplicaState.ONLINE
                        if replica in alive
                        else ControllerReplicaState.DELETION_INELIGIBLE,
                    )
        for queue in self._queues.all():
            if queue.broker_id not in alive:
                self._queues.close(queue.broker_id)
        for broker_id, broker in sorted(alive.items()):
            held = self._queues.get(broker_id)
            if held is None or held.broker_epoch != broker.epoch:
                self._queues.open(broker_id, broker.epoch)

    def queue_full_update(self, image: MetadataImage) -> None:
        """Every broker gets everything it may have missed (C-FO-09)."""
        for queue in self._queues.all():
            queue.pending.full = True
        for topic, partition in image.partitions():
            self._queue_leader_and_isr(topic, partition)

    def queue_full_update_for(self, image: MetadataImage, broker_id: int) -> None:
        """A broker that has just started gets everything (C-BRK-03, C-BRK-04)."""
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        queue.pending.full = True
        for topic, partition in image.partitions():
            if broker_id in partition.replicas and partition.partition_epoch != UNINITIALIZED_EPOCH:
                queue.pending.isr[topic.topic_id, partition.index] = None

    def apply(self, changes: Changes) -> None:
        """Applies one change of the image."""
        for broker_id in changes.changed_brokers:
            self._apply_broker(changes, broker_id)
        for topic, partition in changes.changed_partitions:
            before = changes.previous.partition(topic.topic_id, partition.index)
            self._apply_partition(changes.image, topic, partition, before)
            self._queue_updates(topic, partition, before)
        log_state_changes(changes, self._controller_id, self._controller_epoch)
        self._on_unclean(log_unclean_elections(changes))

    # -- states ---------------------------------------------------------------------------

    def _apply_broker(self, changes: Changes, broker_id: int) -> None:
        here = broker_id in changes.image.brokers
        was = changes.previous.brokers.get(broker_id)
        if here and was is None:
            self._queues.open(broker_id, changes.image.brokers[broker_id].epoch)
        elif not here:
            self._queues.close(broker_id)
        if here != (was is not None):
            target = ControllerReplicaState.ONLINE if here else ControllerReplicaState.OFFLINE
            for topic, partition in changes.image.partitions():
                if broker_id in partition.replicas:
                    self._move_replica((topic.name, partition.index, broker_id), target)
        for queue in self._queues.all():
            queue.pending.brokers = True

    def _apply_partition(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition: PartitionImage,
        before: PartitionImage | None,
    ) -> None:
        key = (topic.name, partition.index)
        if self._partitions.state(key) is ControllerPartitionState.NON_EXISTENT:
            self._move_partition(key, ControllerPartitionState.NEW)
        if partition.partition_epoch != UNINITIALIZED_EPOCH:
            target = (
                ControllerPartitionState.OFFLINE
                if partition.leader == NO_LEADER
                else ControllerPartitionState.ONLINE
            )
            self._move_partition(key, target)
        for replica in partition.replicas:
            replica_key = (*key, replica)
            if self._replicas.state(replica_key) is ControllerReplicaState.NON_EXISTENT:
                self._move_replica(replica_key, ControllerReplicaState.NEW)
                here = replica in image.brokers
                self._move_replica(
                    replica_key,
                    ControllerReplicaState.ONLINE if here else ControllerReplicaState.OFFLINE,
                )
        for replica in () if before is None else before.replicas:
            if replica not in partition.replicas:
                for state in _REMOVAL:
                    self._move_replica((*key, replica), state)

    def _move_partition(self, key: PartitionKey, target: ControllerPartitionState) -> None:
        try:
            self._partitions.transition(key, target)
        except IllegalTransition as error:
            log.error("partition %s", error)

    def _move_replica(self, key: PartitionAndReplica, target: ControllerReplicaState) -> None:
        try:
            self._replicas.transition(key, target)
        except IllegalTransition as error:
            log.error("replica %s", error)

    # -- updates to brokers -----------------------------------------------------------------

    def _queue_updates(
        self, topic: TopicImage, partition: PartitionImage, before: PartitionImage | None
    ) -> None:
        if partition.partition_epoch == UNINITIALIZED_EPOCH:
            return
        if before is None or _leadership_changed(before, partition):
            self._queue_leader_and_isr(topic, partition)
        for queue in self._queues.all():
            queue.pending.metadata[topic.topic_id, partition.index] = None
        for replica in () if before is None else before.replicas:
            queue_of = self._queues.get(replica)
            if replica not in partition.replicas and queue_of is not None:
                queue_of.pending.isr.pop((topic.topic_id, partition.index), None)
                queue_of.pending.stops[topic.name, partition.index] = partition.leader_epoch

    def _queue_leader_and_isr(self, topic: TopicImage, partition: PartitionImage) -> None:
        if partition.partition_epoch == UNINITIALIZED_EPOCH:
            return
        for replica in partition.replicas:
            queue = self._queues.get(replica)
            if queue is not None:
                queue.pending.isr[topic.topic_id, partition.index] = None
                queue.pending.stops.pop((topic.name, partition.index), None)


def _initial_partition_state(
    partition: PartitionImage, alive: Container[int]
) -> ControllerPartitionState:
    if partition.partition_epoch == UNINITIALIZED_EPOCH:
        return ControllerPartitionState.NEW
    if partition.leader in alive:
        return ControllerPartitionState.ONLINE
    return ControllerPartitionState.OFFLINE


def _leadership_changed(before: PartitionImage, after: PartitionImage) -> bool:
    return (
        before.leader != after.leader
        or before.leader_epoch != after.leader_epoch
        or before.replicas != after.replicas
        or before.adding_replicas != after.adding_replicas
        or before.removing_replicas != after.removing_replicas
    )
