"""What a mirror sends to our broker, for the tests of the broker's side."""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
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
from bus.records.batch import assign, iter_batches

THERE = "the-other-cluster"
TOPIC_KIND = 2
SET, DELETE = 0, 1
ANSWER_TIMEOUT_MS = 10_000


def create_mirrored(
    client: SyncClient, name: str, *, replicas: int = 1, **configs: str
) -> None:
    """A topic of one partition that is read-only to all but the mirror."""
    own = {key.replace("_", "."): value for key, value in configs.items()}
    commands.create_topic(
        client, name, partitions=1, replication_factor=replicas,
        configs={"mirror.source.cluster.id": THERE, **own},
    )  # fmt: skip


def set_topic(client: SyncClient, name: str, values: Mapping[str, str | None]) -> None:
    """Set keys of a topic, or unset them."""
    changes = [(key, DELETE if value is None else SET, value) for key, value in values.items()]
    commands.alter_configs(client, {(TOPIC_KIND, name): changes})


def leader_of(client: SyncClient, name: str) -> int:
    """The leader of partition 0; -1 for none."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    found = client.request(ApiKey.METADATA, request).topics[0].partitions
    return found[0].leader_id if found else -1


def mirror(
    client: SyncClient,
    topic: str,
    records: bytes | None = None,
    *,
    base_offset: int = -1,
    generation: int = 1,
    source: str = THERE,
    epoch: int = -1,
    start: int = -1,
    timeout_ms: int = ANSWER_TIMEOUT_MS,
    node: int | None = None,
) -> PartitionMirrorAppendResult:
    """The answer to one MirrorAppend for partition 0; without records it is a claim."""
    asked = PartitionMirrorAppend(
        current_leader_epoch=epoch, base_offset=base_offset, source_log_start_offset=start,
        records=records,
    )  # fmt: skip
    request = MirrorAppendRequest(
        source_cluster_id=source, mirror_generation=generation, timeout_ms=timeout_ms,
        topics=[TopicMirrorAppend(name=topic, partitions=[asked])],
    )  # fmt: skip
    leader = leader_of(client, topic) if node is None else node
    answer = client.request_node(leader, ApiKey.MIRROR_APPEND, request)
    result: PartitionMirrorAppendResult = answer.topics[0].partitions[0]
    return result


def truncate(
    client: SyncClient, topic: str, offset: int, *, end: int, epoch: int, generation: int = 1
) -> PartitionMirrorTruncateResult:
    """The answer to one MirrorTruncate for partition 0."""
    asked = PartitionMirrorTruncate(0, epoch, end, offset)
    request = MirrorTruncateRequest(THERE, generation, [TopicMirrorTruncate(topic, [asked])])
    answer = client.request_node(leader_of(client, topic), ApiKey.MIRROR_TRUNCATE, request)
    result: PartitionMirrorTruncateResult = answer.topics[0].partitions[0]
    return result


def error_of(result: PartitionMirrorAppendResult) -> ErrorCode:
    return ErrorCode.of(result.error_code)


def read_all(client: SyncClient, topic: str, node: int, offset: int, end: int) -> bytes:
    """The batches of partition 0 in [offset, end) as this broker has them, epochs as 0."""
    found = b""
    while offset < end:
        asked = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        answer = client.request_node(
            node, ApiKey.FETCH, _fetch(client, topic, asked)
        ).responses[0].partitions[0]
        assert answer.error_code == 0, ErrorCode.of(answer.error_code)
        data = bytearray(answer.records or b"")
        headers = list(iter_batches(data))
        assert headers, f"nothing at {offset} of {end}"
        for at, header in headers:
            assign(data, at, header.base_offset, 0)
        found += bytes(data)
        offset = headers[-1][1].end_offset
    return found


def _fetch(client: SyncClient, topic: str, asked: FetchPartition) -> FetchRequest:
    found = client.request(
        ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    ).topics[0]
    return FetchRequest(
        max_wait_ms=1000, min_bytes=1, max_bytes=1 << 22,
        topics=[FetchTopic(topic=topic, topic_id=found.topic_id, partitions=[asked])],
    )  # fmt: skip
