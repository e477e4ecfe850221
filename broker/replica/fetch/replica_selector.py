"""Chooses the replica a consumer should read from (KIP-392, RackAwareReplicaSelector).

Returns a replica in the consumer's rack that has its offset, or None.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.replica.partition import Partition


def nearest_replica(
    partition: Partition, rack: str, fetch_offset: int, racks: Mapping[int, str | None]
) -> int | None:
    """The replica in the consumer's rack, the furthest one of several; None to stay with us.

    ``racks``: of the brokers that are alive.
    """
    leader = partition.leader_state
    if leader is None or not rack or racks.get(partition.leader_id) == rack:
        return None
    best, best_end = None, -1
    for replica in partition.isr:
        follower = leader.followers.get(replica)
        if follower is None or racks.get(replica) != rack:
            continue
        if follower.log_start_offset <= fetch_offset <= follower.end_offset and (
            follower.end_offset > best_end
        ):
            best, best_end = replica, follower.end_offset
    return best
