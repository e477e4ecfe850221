"""Where a leader's log begins or ends, asked by a follower that has lost the thread (ListOffsets).

In: a channel, a partition. Out: an offset; PeerError or LogError. Never: a cut.
"""

from __future__ import annotations

from broker.log.errors import LogError
from broker.replica.partition import Partition
from broker.replica.port import Channel
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


async def leader_offset(
    channel: Channel, partition: Partition, broker_id: int, timestamp: int, timeout_ms: int
) -> int:
    """The leader's offset for -1 (latest: as we are a replica, its log end) or -4 (earliest)."""
    ask = ListOffsetsPartition(
        partition_index=partition.index,
        current_leader_epoch=partition.leader_epoch,
        timestamp=timestamp,
    )
    request = ListOffsetsRequest(
        replica_id=broker_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[ask])]
    )
    response: ListOffsetsResponse = await channel.request(
        ApiKey.LIST_OFFSETS, request, timeout_ms=timeout_ms
    )
    for topic in response.topics:
        for answer in topic.partitions:
            if answer.error_code:
                raise LogError(
                    ErrorCode.of(answer.error_code), "the leader does not say its offsets"
                )
            return answer.offset
    raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, "the leader's answer names no partition")
