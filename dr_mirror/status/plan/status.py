"""What the mirror says of itself: per partition, per topic, in all. Pure.

In: the copies and plans as they are, the time. Out: `MirrorStatus`, also as it stands in a file.
Never: a lag of 0 for what has not been heard from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.contracts.mirror_status import (
    AclStatus,
    EdgeStatus,
    MirrorStatus,
    PartitionStatus,
    ProofStatus,
    TopicStatus,
)
from dr_mirror.copy.plan.partition_copy import PartitionCopy, lag_s
from dr_mirror.edges.plan.edge_status import rpo_through_edges_s
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import ClusterPair, TopicPlan

NO_ACLS = AclStatus()


def partition_status(copy: PartitionCopy, now_ms: int, answered_ms: int) -> PartitionStatus:
    """Of one partition. `answered_ms`: when its leader at the source answered last; -1: never."""
    return PartitionStatus(
        topic=copy.partition.topic,
        partition=copy.partition.partition,
        state=copy.state.value,
        detail=copy.detail,
        source_end=copy.source.high_watermark,
        target_end=copy.acknowledged,
        lag_records=copy.lag_records,
        lag_bytes=copy.lag_bytes,
        lag_s=lag_s(copy, now_ms, answered_ms),
        missing=copy.missing,
        copied_records=copy.copied_records,
        copied_bytes=copy.copied_bytes,
        source_heard_ms=answered_ms,
    )


def mirror_status(
    clusters: ClusterPair,
    plans: Mapping[str, TopicPlan],
    partitions: Iterable[PartitionStatus],
    *,
    now_ms: int,
    unreachable: str,
    buffered_bytes: int,
    groups_not_copied: Mapping[str, str],
    rebuilt_batches: int = 0,
    groups_copied_ms: int = -1,
    proof: ProofStatus,
    acls: AclStatus = NO_ACLS,
) -> MirrorStatus:
    """In all; topics and partitions by name."""
    of_partitions = tuple(sorted(partitions, key=lambda one: (one.topic, one.partition)))
    lags = [one.lag_s for one in of_partitions]
    return MirrorStatus(
        at_ms=now_ms,
        source_cluster_id=clusters.source_cluster_id,
        target_cluster_id=clusters.target_cluster_id,
        generation=clusters.generation,
        unreachable=unreachable,
        buffered_bytes=buffered_bytes,
        rpo_s=-1.0 if any(lag < 0 for lag in lags) else max(lags, default=0.0),
        topics=tuple(
            TopicStatus(topic=name, state=plan.state.value, detail=plan.detail)
            for name, plan in sorted(plans.items())
        ),
        partitions=of_partitions,
        groups_not_copied=dict(groups_not_copied),
        rebuilt_batches=rebuilt_batches,
        groups_copied_ms=groups_copied_ms,
        proof=proof,
        acls=acls,
    )


def is_fenced(status: MirrorStatus) -> bool:
    """Whether another instance, of a newer generation, copies."""
    states = {one.state for one in status.partitions} | {one.state for one in status.topics}
    return MirrorState.FENCED.value in states


def with_edges(status: MirrorStatus, edges: tuple[EdgeStatus, ...]) -> MirrorStatus:
    """What edges keep, beside it."""
    rpo_s = rpo_through_edges_s(status.rpo_s, edges, status.at_ms)
    return msgspec.structs.replace(status, edges=edges, rpo_through_edges_s=rpo_s)
