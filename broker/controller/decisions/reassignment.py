"""Moving replicas: begin, change the target, cancel (45).

In: the image, the rules, target replicas. Out: records, and a result per partition. Never: the
completion; that is a consequence of the in-sync set (`partition_change`). Kafka:
ReplicationControlManager.alterPartitionReassignments, KIP-455.

While a partition moves, its replicas are the target first, then those that go. `adding` are the
replicas it did not have when it began to move, so that what it had is always known:
replicas without `adding` (C-RA-11 ff.).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.leadership import election_context
from broker.controller.decisions.partition_change import Election, TargetState, change_partition
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.placement import check_brokers
from broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from bus.errors import ErrorCode

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of one partition; None cancels."""

    topic: str
    index: int
    replicas: Replicas | None


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    """The result for one partition."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_reassignments(
    image: MetadataImage,
    policy: PartitionPolicy,
    reassignments: Sequence[Reassignment],
    allow_factor_change: bool = True,
) -> Decision[tuple[ReassignmentResult, ...]]:
    """Each partition independently."""
    records: list[object] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for reassignment in reassignments:
        try:
            if (reassignment.topic, reassignment.index) in seen:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the same partition twice")
            seen.add((reassignment.topic, reassignment.index))
            record = _alter(image, policy, reassignment, allow_factor_change)
            if record is not None:
                records.append(record)
            results.append(ReassignmentResult(reassignment.topic, reassignment.index))
        except RefusedError as error:
            refusal = error.refusal
            results.append(
                ReassignmentResult(
                    reassignment.topic, reassignment.index, refusal.error, refusal.message
                )
            )
    return Decision(tuple(records), tuple(results))


def original_replicas(partition: PartitionImage) -> Replicas:
    """The replicas a partition had before its reassignment began."""
    return tuple(one for one in partition.replicas if one not in partition.adding_replicas)


def _alter(
    image: MetadataImage,
    policy: PartitionPolicy,
    reassignment: Reassignment,
    allow_factor_change: bool,
) -> object | None:
    topic = image.topics.get(reassignment.topic)
    if topic is None or not 0 <= reassignment.index < len(topic.partitions):
        what = f"a topic named {reassignment.topic}"
        if topic is not None:
            what = f"partition {reassignment.topic}:{reassignment.index}"
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {what}.")
    partition = topic.partitions[reassignment.index]
    if reassignment.replicas is None:
        return _cancel(image, policy, topic, partition)
    _check_target(image, partition, reassignment.replicas, allow_factor_change)
    return _begin(image, policy, topic, partition, reassignment.replicas)


def _check_target(
    image: MetadataImage, partition: PartitionImage, target: Replicas, allow_factor_change: bool
) -> None:
    check_brokers(image, target)
    factor = len(original_replicas(partition))
    if not allow_factor_change and len(target) != factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def _begin(
    image: MetadataImage,
    policy: PartitionPolicy,
    topic: TopicImage,
    partition: PartitionImage,
    target: Replicas,
) -> object | None:
    """Also during another reassignment: its added replicas that the new target does not contain are
    dropped, but those in sync stay until the new one is complete, because they may hold the
    acknowledged records."""
    before = original_replicas(partition)
    in_sync = [one for one in partition.adding_replicas if one in partition.isr]
    replicas = _union(target, before, in_sync)
    change = TargetState(
        replicas=replicas,
        isr=tuple(one for one in partition.isr if one in replicas),
        adding=tuple(one for one in replicas if one not in before),
        removing=tuple(one for one in replicas if one not in target),
        election=_election(image, policy, topic),
    )
    if tuple(target) == partition.replicas and not partition.is_reassigning:
        return None
    return change_partition(
        topic.topic_id, partition, change, election_context(image, policy, topic, partition)
    )


def _cancel(
    image: MetadataImage, policy: PartitionPolicy, topic: TopicImage, partition: PartitionImage
) -> object | None:
    """Reverts to the original replicas. If none of these is in sync, that is an unclean election,
    and refused unless the topic allows it."""
    if not partition.is_reassigning:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    before = original_replicas(partition)
    isr = tuple(one for one in partition.isr if one in before)
    unclean = policy.unclean_allowed(image, topic.name)
    if not isr and not unclean:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}-{partition.index} because it "
            f"would require an unclean leader election.",
        )
    change = TargetState(
        replicas=before, isr=isr, adding=(), removing=(), election=_election(image, policy, topic)
    )
    return change_partition(
        topic.topic_id, partition, change, election_context(image, policy, topic, partition)
    )


def _election(image: MetadataImage, policy: PartitionPolicy, topic: TopicImage) -> Election:
    return Election.UNCLEAN if policy.unclean_allowed(image, topic.name) else Election.ONLINE


def _union(*lists: Sequence[int]) -> Replicas:
    return tuple(dict.fromkeys(one for items in lists for one in items))
