"""Requests about offsets of a partition and of groups, and what their answers say. Pure.

In: partitions, groups. Out: requests; committed offsets. Never: a channel: who sends them decides
what an error means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bus.client.model import OffsetAndMetadata, TopicAndPartition, TopicPartition
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bus.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from bus.protocol.wire import NO_UUID

EARLIEST, LATEST = -2, -1
TIMEOUT_MS = 10_000
CONSUMER, UNCOMMITTED, NO_EPOCH = -1, 0, -1

NO_IDS: Mapping[str, bytes] = MappingProxyType({})
NO_NAMES: Mapping[bytes, str] = MappingProxyType({})


def one_list_offsets(
    partition: TopicPartition, timestamp: int, leader_epoch: int = NO_EPOCH
) -> ListOffsetsRequest:
    """Where the log of one partition begins (`EARLIEST`) or what consumers may read ends
    (`LATEST`)."""
    asked = ListOffsetsPartition(partition.partition, leader_epoch, timestamp)
    topic = ListOffsetsTopic(partition.topic, [asked])
    return ListOffsetsRequest(CONSUMER, UNCOMMITTED, [topic], timeout_ms=TIMEOUT_MS)


def list_offsets(
    partitions: Iterable[TopicAndPartition], timestamp: int, timeout_ms: int = TIMEOUT_MS
) -> ListOffsetsRequest:
    """The first offset of each with a record not older than this time; or `EARLIEST`, `LATEST`."""
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in partitions:
        by_topic[topic].append(ListOffsetsPartition(index, NO_EPOCH, timestamp))
    topics = [ListOffsetsTopic(name, asked) for name, asked in by_topic.items()]
    return ListOffsetsRequest(CONSUMER, UNCOMMITTED, topics, timeout_ms=timeout_ms)


def offsets_of_groups(groups: Iterable[str]) -> OffsetFetchRequest:
    """Everything that these groups have committed."""
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=None) for group in groups]
    )


def committed_offsets(
    answer: OffsetFetchResponse, names: Mapping[bytes, str] = NO_NAMES
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """By group, of an answer to `offsets_of_groups`; one that its broker refuses is left out.
    `names` of topics by their ids, which newer answers have instead."""
    return {
        group.group_id: {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index):
                OffsetAndMetadata(one.committed_offset, one.metadata or "")
            for topic in group.topics
            for one in topic.partitions
            if not one.error_code and one.committed_offset >= 0
        }
        for group in answer.groups
        if not group.error_code
    }  # fmt: skip


def commit_of_group(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, bytes] = NO_IDS,
) -> OffsetCommitRequest:
    """As nobody's member and without a leader epoch. `ids` of topics, for versions that name them
    so."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, index), one in offsets.items():
        by_topic[topic].append(
            OffsetCommitRequestPartition(index, one.offset, NO_EPOCH, one.metadata)
        )
    topics = [
        OffsetCommitRequestTopic(name=name, topic_id=ids.get(name, NO_UUID), partitions=found)
        for name, found in by_topic.items()
    ]
    return OffsetCommitRequest(group_id=group, topics=topics)
