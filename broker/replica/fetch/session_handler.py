"""What a follower asks its leader for, in a fetch session. Pure.

In: the partitions to fetch, those that changed, the leader's responses. Out: the next request.
Never: a connection, a clock. Counterpart: ``session_cache``; tests connect the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.replica.partition import Partition
from bus.client.wire.fetch_session import (
    ClientFetchSession,
    PartitionKey,
    fetch_topics,
    forgotten_topics,
)
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, ReplicaState


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Sizes and times of a follower's requests (Kafka's replica.fetch.… keys)."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576


class FetchSessionHandler(ClientFetchSession[Partition]):
    """Each partition is fetched from its log's end on; it changes with that, its start, its
    epoch."""

    def __init__(self, broker_id: int, limits: FetchLimits) -> None:
        super().__init__()
        self._broker_id = broker_id
        self._limits = limits

    def next_request(self, broker_epoch: int) -> tuple[FetchRequest, list[PartitionKey]] | None:
        """The request and the partitions it names; None while there is nothing to fetch."""
        step = self.next_step()
        if step is None:
            return None
        limits = self._limits
        request = FetchRequest(
            replica_id=self._broker_id,
            replica_state=ReplicaState(self._broker_id, broker_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=step.session_id,
            session_epoch=step.epoch,
            topics=fetch_topics(self._from_end(key) for key in step.named),
            forgotten_topics_data=forgotten_topics(
                (key, partition.topic) for key, partition in step.forgotten.items()
            ),
        )
        return request, step.named

    def _from_end(self, key: PartitionKey) -> tuple[PartitionKey, str, FetchPartition]:
        partition = self.partitions[key]
        log = partition.log
        asked = FetchPartition(
            partition.index,
            partition.leader_epoch,
            log.end_offset,
            log.leader_epochs.latest,
            log.log_start_offset,
            self._limits.partition_max_bytes,
        )
        return key, partition.topic, asked
