"""Requests about partitions of a cluster, each to the leader that the newest view names. Blocking.

In: partitions. Out: what leaders answered. Raises BusError. Never: a wait for a leader: a partition
without one that answers is left out, where several are asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bus.client.admin.cluster_admin import ClusterView
from bus.client.admin.queries import raise_for_error
from bus.client.model import TopicPartition
from bus.client.wire.offset_requests import EARLIEST, LATEST, list_offsets
from bus.client.wire.one_fetch import FetchFrom, fetched, one_fetch
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    PartitionMirrorAppend,
    PartitionMirrorAppendResult,
    TopicMirrorAppend,
)
from bus.protocol.generated.mirror_truncate import (
    MirrorTruncateRequest,
    PartitionMirrorTruncate,
    PartitionMirrorTruncateResult,
    TopicMirrorTruncate,
)
from bus.protocol.wire import RequestMessage, ResponseT

CLAIM_TIMEOUT_MS = 10_000
FETCH_BYTES = 4 * 1024 * 1024

ByLeader = dict[int, dict[str, list[int]]]


class LeaderRequests:
    """`view`: set by who refreshes it; who leads is read there."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self.view = ClusterView("", {}, {})

    def leader_of(self, partition: TopicPartition) -> int | None:
        """By the view; None: it has none."""
        return next(iter(self._by_leader([partition])), None)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks; a partition without a leader that answers is left out."""
        return self._offsets(partitions, LATEST)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Log starts, in the same way."""
        return self._offsets(partitions, EARLIEST)

    def _offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, topics in self._by_leader(partitions).items():
            led = [TopicPartition(name, n) for name, parts in topics.items() for n in parts]
            request = list_offsets(led, timestamp)
            answer = self._ask(leader, ApiKey.LIST_OFFSETS, request)
            for topic in answer.topics if answer is not None else ():
                for one in topic.partitions:
                    if not one.error_code:
                        found[TopicPartition(topic.name, one.partition_index)] = one.offset
        return found

    def claim(
        self, partitions: Iterable[TopicPartition], source_cluster_id: str, generation: int
    ) -> dict[TopicPartition, PartitionMirrorAppendResult]:
        """What each leader answers to a claim of the mirror: it says where its log ends, or why it
        takes none. A partition without a leader that answers is left out."""
        found: dict[TopicPartition, PartitionMirrorAppendResult] = {}
        for leader, topics in self._by_leader(partitions).items():
            request = MirrorAppendRequest(source_cluster_id, generation, CLAIM_TIMEOUT_MS, [
                TopicMirrorAppend(name, [PartitionMirrorAppend(index) for index in parts])
                for name, parts in topics.items()
            ])  # fmt: skip
            answer = self._ask(leader, ApiKey.MIRROR_APPEND, request)
            for topic in answer.topics if answer is not None else ():
                found |= {TopicPartition(topic.name, one.index): one for one in topic.partitions}
        return found

    def producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Producers that each leader remembers."""
        found: dict[TopicPartition, list[ProducerState]] = {}
        for leader, topics in self._by_leader(partitions).items():
            request = DescribeProducersRequest([
                TopicRequest(name, parts) for name, parts in topics.items()
            ])  # fmt: skip
            answer = self._ask(leader, ApiKey.DESCRIBE_PRODUCERS, request)
            for topic in answer.topics if answer is not None else ():
                for one in topic.partitions:
                    if not one.error_code:
                        place = TopicPartition(topic.name, one.partition_index)
                        found[place] = one.active_producers
        return found

    def fetch(self, partition: TopicPartition, position: int) -> memoryview:
        """Batches below the high watermark, from the one that holds `position` on. Raises
        BusError."""
        [leader] = self._by_leader([partition])
        key = self.view.topics[partition.topic].topic_id, partition.partition
        start = FetchFrom(partition.topic, position)
        request = one_fetch(key, start, max_bytes=FETCH_BYTES)
        answer = self._client.request_node(leader, ApiKey.FETCH, request)
        raise_for_error(answer.error_code, partition.topic)
        data = answer.responses[0].partitions[0]
        raise_for_error(data.error_code, f"{partition.topic}-{partition.partition}")
        return memoryview(fetched(data.records))

    def truncate(
        self, partition: TopicPartition, source_cluster_id: str, generation: int,
        claim: PartitionMirrorAppendResult, offset: int,
    ) -> PartitionMirrorTruncateResult:  # fmt: skip
        """The leader's answer to a cut at `offset`, while its log ends as `claim` says. Raises
        BusError."""
        [leader] = self._by_leader([partition])
        one = PartitionMirrorTruncate(
            partition.partition, claim.leader_epoch, claim.log_end_offset, offset
        )
        request = MirrorTruncateRequest(
            source_cluster_id, generation, [TopicMirrorTruncate(partition.topic, [one])]
        )
        answer = self._client.request_node(leader, ApiKey.MIRROR_TRUNCATE, request)
        return answer.topics[0].partitions[0]

    def append(
        self,
        partition: TopicPartition,
        source_cluster_id: str,
        generation: int,
        base_offset: int,
        records: bytes,
    ) -> PartitionMirrorAppendResult:
        """The leader's answer to one mirrored append. Raises BusError."""
        [leader] = self._by_leader([partition])
        one = PartitionMirrorAppend(partition.partition, base_offset=base_offset, records=records)
        request = MirrorAppendRequest(
            source_cluster_id, generation, CLAIM_TIMEOUT_MS,
            [TopicMirrorAppend(partition.topic, [one])],
        )  # fmt: skip
        answer = self._client.request_node(leader, ApiKey.MIRROR_APPEND, request)
        return answer.topics[0].partitions[0]

    def _ask(
        self, leader: int, api_key: int, request: RequestMessage[ResponseT]
    ) -> ResponseT | None:
        """None: it does not answer for now."""
        try:
            return self._client.request_node(leader, api_key, request)
        except BusError as error:
            if not (error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE):
                raise
            return None

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> ByLeader:
        leaders = {
            TopicPartition(name, each.index): each.leader
            for name, topic in self.view.topics.items()
            for each in topic.partitions
        }
        found: ByLeader = defaultdict(lambda: defaultdict(list))
        for partition in partitions:
            leader = leaders.get(partition, -1)
            if leader >= 0:
                found[leader][partition.topic].append(partition.partition)
        return found
