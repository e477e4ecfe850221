"""Topics being deleted: every replica is deleted first, then the znodes (chapter 5, section 16).

In: a topic, brokers that start and fail, StopReplica responses. Out: which replicas are to be
stopped now, and which topics are complete. Never: I/O.

A topic leaves the controller's image when its deletion begins, so decisions no longer see it; it is
held here until each of its replicas has confirmed that its log is deleted. A replica on a dead
broker makes the topic wait for that broker (C-DEL-27): its log would otherwise come back with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker.controller.zk.state_machines import (
    ControllerPartitionState,
    ControllerReplicaState,
    IllegalTransition,
    PartitionAndReplica,
    PartitionKey,
    StateMachine,
)
from broker.metadata.image import TopicImage
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller.zk")

GONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                  ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors after which a broker certainly has no such log."""


@dataclass(slots=True)
class TopicDeletionManager:
    """Topics being deleted, by name. Invariant: each of their replicas is in the state machine."""

    partitions: StateMachine[PartitionKey, ControllerPartitionState]
    replicas: StateMachine[PartitionAndReplica, ControllerReplicaState]
    topics: dict[str, TopicImage] = field(default_factory=dict)

    def begin(self, topic: TopicImage, alive: Collection[int]) -> list[PartitionAndReplica]:
        """Starts a topic's deletion; the replicas to stop now."""
        self.topics[topic.name] = topic
        keys = replica_keys(topic)
        for key in keys:
            if self.replicas.state(key) is ControllerReplicaState.NON_EXISTENT:
                self.replicas.set_initial(key, ControllerReplicaState.OFFLINE)
        return self._start(keys, alive)

    def on_broker_startup(
        self, broker_id: int, alive: Collection[int]
    ) -> list[PartitionAndReplica]:
        """A broker is back: its replicas are tried again (C-DEL-28)."""
        return self._start(self._held_by(broker_id), alive)

    def on_broker_failure(self, broker_id: int) -> None:
        """Replicas it had not confirmed are tried again when it is back."""
        for key in self._held_by(broker_id):
            if self.replicas.state(key) is ControllerReplicaState.DELETION_STARTED:
                self._transition(key, ControllerReplicaState.DELETION_INELIGIBLE)

    def on_stop_replica_response(
        self, broker_id: int, results: Mapping[tuple[str, int], ErrorCode]
    ) -> list[TopicImage]:
        """A broker responded to StopReplica; topics that are complete now."""
        touched: dict[str, None] = {}
        for (name, index), error in results.items():
            key = (name, index, broker_id)
            if name not in self.topics:
                continue
            if self.replicas.state(key) is not ControllerReplicaState.DELETION_STARTED:
                continue
            if error in GONE:
                self._transition(key, ControllerReplicaState.DELETION_SUCCESSFUL)
            else:
                log.warning("broker %d could not delete %s-%d: %s", *key[2:], *key[:2], error.name)
                self._transition(key, ControllerReplicaState.DELETION_INELIGIBLE)
            touched[name] = None
        return [self.topics[name] for name in touched if self._is_complete(name)]

    def complete(self) -> list[TopicImage]:
        """Topics all of whose replicas are deleted."""
        return [topic for name, topic in self.topics.items() if self._is_complete(name)]

    def finish(self, topic: TopicImage) -> None:
        """The topic's znodes are removed (C-DEL-22..26)."""
        del self.topics[topic.name]
        for key in replica_keys(topic):
            self._transition(key, ControllerReplicaState.NON_EXISTENT)
        for partition in topic.partitions:
            for state in (ControllerPartitionState.OFFLINE, ControllerPartitionState.NON_EXISTENT):
                self._transition_partition((topic.name, partition.index), state)

    def _start(
        self, keys: Iterable[PartitionAndReplica], alive: Collection[int]
    ) -> list[PartitionAndReplica]:
        started = []
        for key in keys:
            state = self.replicas.state(key)
            if state in (
                ControllerReplicaState.DELETION_SUCCESSFUL,
                ControllerReplicaState.DELETION_STARTED,
            ):
                continue
            self._transition(key, ControllerReplicaState.OFFLINE)
            if key[2] in alive:
                self._transition(key, ControllerReplicaState.DELETION_STARTED)
                started.append(key)
            else:
                self._transition(key, ControllerReplicaState.DELETION_INELIGIBLE)
        return started

    def _held_by(self, broker_id: int) -> list[PartitionAndReplica]:
        return [
            key
            for topic in self.topics.values()
            for key in replica_keys(topic)
            if key[2] == broker_id
        ]

    def _is_complete(self, name: str) -> bool:
        return all(
            self.replicas.state(key) is ControllerReplicaState.DELETION_SUCCESSFUL
            for key in replica_keys(self.topics[name])
        )

    def _transition(self, key: PartitionAndReplica, target: ControllerReplicaState) -> None:
        try:
            self.replicas.transition(key, target)
        except IllegalTransition as error:
            log.error("replica %s", error)

    def _transition_partition(self, key: PartitionKey, target: ControllerPartitionState) -> None:
        try:
            self.partitions.transition(key, target)
        except IllegalTransition as error:
            log.error("partition %s", error)


def replica_keys(topic: TopicImage) -> list[PartitionAndReplica]:
    """Every replica of a topic."""
    return [
        (topic.name, partition.index, replica)
        for partition in topic.partitions
        for replica in partition.replicas
    ]
