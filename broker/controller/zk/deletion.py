"""Topics on their way out: every replica is deleted first, then the znodes (chapter 5, section 16).

In: a topic, brokers that come and go, StopReplica answers. Out: which replicas are to be stopped
now, and which topics are complete. Never: I/O.

A topic leaves the controller's image when its deletion begins, so no decision meets it any more;
it is held here until each of its replicas has said that its log is gone. A replica on a dead
broker makes the topic wait for that broker (C-DEL-27): its log would otherwise come back with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker.controller.zk.states import (
    IllegalTransition,
    PartitionKey,
    PartitionState,
    ReplicaKey,
    ReplicaState,
    StateMachine,
)
from broker.metadata.image import TopicImage
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller.zk")

GONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                  ErrorCode.UNKNOWN_TOPIC_ID})
"""Answers after which a broker surely holds no such log."""


@dataclass(slots=True)
class Deletions:
    """Topics being deleted, by name. Invariant: each replica of them is in the machine."""

    partitions: StateMachine[PartitionKey, PartitionState]
    replicas: StateMachine[ReplicaKey, ReplicaState]
    topics: dict[str, TopicImage] = field(default_factory=dict)

    def begin(self, topic: TopicImage, alive: Collection[int]) -> list[ReplicaKey]:
        """Start with a topic; the replicas that are to be stopped now."""
        self.topics[topic.name] = topic
        keys = replica_keys(topic)
        for key in keys:
            if self.replicas.state(key) is ReplicaState.NON_EXISTENT:
                self.replicas.start(key, ReplicaState.OFFLINE)
        return self._start(keys, alive)

    def broker_came(self, broker_id: int, alive: Collection[int]) -> list[ReplicaKey]:
        """A broker is back: its replicas are tried again (C-DEL-28)."""
        return self._start(self._held_by(broker_id), alive)

    def broker_left(self, broker_id: int) -> None:
        """What it had not answered it has to be asked again when it is back."""
        for key in self._held_by(broker_id):
            if self.replicas.state(key) is ReplicaState.DELETION_STARTED:
                self._move(key, ReplicaState.DELETION_INELIGIBLE)

    def answered(
        self, broker_id: int, results: Mapping[tuple[str, int], ErrorCode]
    ) -> list[TopicImage]:
        """A broker answered StopReplica; topics that are complete now."""
        touched: dict[str, None] = {}
        for (name, index), error in results.items():
            key = (name, index, broker_id)
            if name not in self.topics:
                continue
            if self.replicas.state(key) is not ReplicaState.DELETION_STARTED:
                continue
            if error in GONE:
                self._move(key, ReplicaState.DELETION_SUCCESSFUL)
            else:
                log.warning("broker %d could not delete %s-%d: %s", *key[2:], *key[:2], error.name)
                self._move(key, ReplicaState.DELETION_INELIGIBLE)
            touched[name] = None
        return [self.topics[name] for name in touched if self._is_complete(name)]

    def complete(self) -> list[TopicImage]:
        """Topics all of whose replicas are gone."""
        return [topic for name, topic in self.topics.items() if self._is_complete(name)]

    def finish(self, topic: TopicImage) -> None:
        """Its znodes are gone: it never was (C-DEL-22..26)."""
        del self.topics[topic.name]
        for key in replica_keys(topic):
            self._move(key, ReplicaState.NON_EXISTENT)
        for partition in topic.partitions:
            for state in (PartitionState.OFFLINE, PartitionState.NON_EXISTENT):
                self._move_partition((topic.name, partition.index), state)

    def _start(self, keys: Iterable[ReplicaKey], alive: Collection[int]) -> list[ReplicaKey]:
        started = []
        for key in keys:
            state = self.replicas.state(key)
            if state in (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_STARTED):
                continue
            self._move(key, ReplicaState.OFFLINE)
            if key[2] in alive:
                self._move(key, ReplicaState.DELETION_STARTED)
                started.append(key)
            else:
                self._move(key, ReplicaState.DELETION_INELIGIBLE)
        return started

    def _held_by(self, broker_id: int) -> list[ReplicaKey]:
        return [
            key
            for topic in self.topics.values()
            for key in replica_keys(topic)
            if key[2] == broker_id
        ]

    def _is_complete(self, name: str) -> bool:
        return all(
            self.replicas.state(key) is ReplicaState.DELETION_SUCCESSFUL
            for key in replica_keys(self.topics[name])
        )

    def _move(self, key: ReplicaKey, target: ReplicaState) -> None:
        try:
            self.replicas.move(key, target)
        except IllegalTransition as error:
            log.error("replica %s", error)

    def _move_partition(self, key: PartitionKey, target: PartitionState) -> None:
        try:
            self.partitions.move(key, target)
        except IllegalTransition as error:
            log.error("partition %s", error)


def replica_keys(topic: TopicImage) -> list[ReplicaKey]:
    """Every replica of a topic."""
    return [
        (topic.name, partition.index, replica)
        for partition in topic.partitions
        for replica in partition.replicas
    ]
