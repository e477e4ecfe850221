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
from broker.controller.decisions.leadership import terms_for
from broker.controller.decisions.partition_change import Election, Wanted, change_partition
from broker.controller.decisions.placement import check_brokers
from broker.controller.decisions.rules import Rules
from broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from bus.errors import ErrorCode

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Where the replicas of one partition shall be; None cancels."""

    topic: str
    index: int
    replicas: Replicas | None


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What became of one partition."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_reassignments(
    image: MetadataImage,
    rules: Rules,
    moves: Sequence[Move],
    allow_factor_change: bool = True,
) -> Decision[tuple[MoveResult, ...]]:
    """Each partition for itself."""
    records: list[object] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for move in moves:
        try:
            if (move.topic, move.index) in seen:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the same partition twice")
            seen.add((move.topic, move.index))
            record = _alter(image, rules, move, allow_factor_change)
            if record is not None:
                records.append(record)
            results.append(MoveResult(move.topic, move.index))
        except RefusedError as error:
            refusal = error.refusal
            results.append(MoveResult(move.topic, move.index, refusal.error, refusal.message))
    return Decision(tuple(records), tuple(results))


def originals(partition: PartitionImage) -> Replicas:
    """The replicas a partition had before it began to move."""
    return tuple(one for one in partition.replicas if one not in partition.adding_replicas)


def _alter(
    image: MetadataImage, rules: Rules, move: Move, allow_factor_change: bool
) -> object | None:
    topic = image.topics.get(move.topic)
    if topic is None or not 0 <= move.index < len(topic.partitions):
        what = f"a topic named {move.topic}"
        if topic is not None:
            what = f"partition {move.topic}:{move.index}"
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {what}.")
    partition = topic.partitions[move.index]
    if move.replicas is None:
        return _cancel(image, rules, topic, partition)
    _check_target(image, partition, move.replicas, allow_factor_change)
    return _begin(image, rules, topic, partition, move.replicas)


def _check_target(
    image: MetadataImage, partition: PartitionImage, target: Replicas, allow_factor_change: bool
) -> None:
    check_brokers(image, target)
    factor = len(originals(partition))
    if not allow_factor_change and len(target) != factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def _begin(
    image: MetadataImage,
    rules: Rules,
    topic: TopicImage,
    partition: PartitionImage,
    target: Replicas,
) -> object | None:
    """Also in the middle of another move: its added replicas that the new target does not want
    are dropped, but those in sync stay until the new move is complete, because they may be what
    holds the acknowledged records."""
    before = originals(partition)
    in_sync = [one for one in partition.adding_replicas if one in partition.isr]
    replicas = _union(target, before, in_sync)
    wanted = Wanted(
        replicas=replicas,
        isr=tuple(one for one in partition.isr if one in replicas),
        adding=tuple(one for one in replicas if one not in before),
        removing=tuple(one for one in replicas if one not in target),
        election=_election(image, rules, topic),
    )
    if tuple(target) == partition.replicas and not partition.is_reassigning:
        return None
    return change_partition(
        topic.topic_id, partition, wanted, terms_for(image, rules, topic, partition)
    )


def _cancel(
    image: MetadataImage, rules: Rules, topic: TopicImage, partition: PartitionImage
) -> object | None:
    """Back to what it was. If nobody of those replicas is in sync, that is an unclean election,
    and refused unless the topic allows it."""
    if not partition.is_reassigning:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    before = originals(partition)
    isr = tuple(one for one in partition.isr if one in before)
    unclean = rules.unclean_allowed(image, topic.name)
    if not isr and not unclean:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}-{partition.index} because it "
            f"would require an unclean leader election.",
        )
    wanted = Wanted(
        replicas=before, isr=isr, adding=(), removing=(), election=_election(image, rules, topic)
    )
    return change_partition(
        topic.topic_id, partition, wanted, terms_for(image, rules, topic, partition)
    )


def _election(image: MetadataImage, rules: Rules, topic: TopicImage) -> Election:
    return Election.UNCLEAN if rules.unclean_allowed(image, topic.name) else Election.ONLINE


def _union(*lists: Sequence[int]) -> Replicas:
    return tuple(dict.fromkeys(one for items in lists for one in items))
