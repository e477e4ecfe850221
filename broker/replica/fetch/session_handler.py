"""The follower's side of a fetch session (KIP-227): requests name only what changed. Pure.

In: the partitions to fetch, those that changed, the leader's responses. Out: the next request.
Never: a connection, a clock. Counterpart: ``session_cache``; tests connect the two.

The first request of a session names everything, later ones only what has changed since. After a
response that may not belong to the session, the next request closes it and begins a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.replica.fetch.session_cache import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from broker.replica.partition import Partition
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

Key = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Sizes and times of a follower's requests (Kafka's replica.fetch.… keys)."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576


class FetchSessionHandler:
    """Invariant: outside a full request, what the session holds at the leader is
    ``_wanted`` as of the last request, ``_changed`` and ``_forgotten`` being the difference."""

    def __init__(self, broker_id: int, limits: FetchLimits) -> None:
        self._broker_id = broker_id
        self._limits = limits
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[Key, Partition] = {}
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, Partition] = {}
        self._in_session: dict[Key, None] = {}

    @property
    def partitions(self) -> Mapping[Key, Partition]:
        return self._partitions

    def add(self, key: Key, partition: Partition) -> None:
        """Fetch a partition from its log's end on, also if it was added before."""
        self._partitions[key] = partition
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def mark_changed(self, key: Key) -> None:
        """The log's end, its start or its epoch has changed."""
        self._changed[key] = None

    def remove(self, key: Key) -> None:
        """Stop fetching it."""
        partition = self._partitions.pop(key, None)
        self._changed.pop(key, None)
        if partition is not None and key in self._in_session:
            self._forgotten[key] = partition

    def next_request(self, broker_epoch: int) -> tuple[FetchRequest, list[Key]] | None:
        """The request and the partitions it names; None while there is nothing to fetch."""
        if not self._partitions and not self._forgotten:
            return None
        full = self._epoch == INITIAL_EPOCH
        if full and not self._partitions:
            self._forgotten.clear()
            return None
        named = list(self._partitions if full else self._changed)
        forgotten = {} if full else self._forgotten
        limits = self._limits
        request = FetchRequest(
            replica_id=self._broker_id,
            replica_state=ReplicaState(self._broker_id, broker_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )
        if full:
            self._in_session = dict.fromkeys(named)
        else:
            for key in forgotten:
                self._in_session.pop(key, None)
            self._in_session.update(dict.fromkeys(named))
        self._forgotten, self._changed = {}, {}
        return request, named

    def _topics(self, keys: list[Key]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        size = self._limits.partition_max_bytes
        for key in keys:
            partition = self._partitions[key]
            topic = topics.get(key[0])
            if topic is None:
                topic = FetchTopic(topic=partition.topic, topic_id=key[0], partitions=[])
                topics[key[0]] = topic
            log = partition.log
            topic.partitions.append(
                FetchPartition(
                    partition.index,
                    partition.leader_epoch,
                    log.end_offset,
                    log.leader_epochs.latest,
                    log.log_start_offset,
                    size,
                )
            )
        return list(topics.values())

    def handle_response(self, error_code: int, session_id: int) -> bool:
        """Handle the response to the last request; whether its partitions may be used."""
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.reset()
            return False
        if self._epoch == INITIAL_EPOCH:
            self._session_id = session_id
            self._epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1
        elif session_id != self._session_id:
            self.reset()
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def reset(self) -> None:
        """No response came: the leader may or may not have handled the request."""
        self._epoch = INITIAL_EPOCH
        self._in_session = {}


def _forgotten_topics(partitions: Mapping[Key, Partition]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for (topic_id, index), partition in partitions.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = ForgottenTopic(topic=partition.topic, topic_id=topic_id, partitions=[])
            topics[topic_id] = topic
        topic.partitions.append(index)
    return list(topics.values())
