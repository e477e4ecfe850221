"""Where a follower truncates or restarts its log when it differs from the leader's (KIP-101, 279,
595).

In: the leader's answer about an epoch, our own epochs; or a channel to ask for the leader's log
start and end. Out: an offset; PeerError or LogError. Never: a truncation; an offset derived from
the own high watermark, which is what lost acknowledged records before KIP-101.
"""

from __future__ import annotations

from broker.log.errors import LogError
from broker.log.log import Log
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

UNDEFINED = -1


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Where to truncate: the leader has ``epoch`` up to ``end_offset``, and no newer one we know.

    If we have that epoch too, both agree up to the earlier of the two ends. If not, the end of our
    next older epoch is an intermediate step: the next fetch names that, and the leader answers
    again.
    """
    ours = log.end_offset_for_epoch(epoch)
    if ours.end_offset == UNDEFINED:
        return min(end_offset, log.end_offset)
    if ours.epoch != epoch:
        return min(ours.end_offset, log.end_offset)
    return min(ours.end_offset, end_offset, log.end_offset)


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
