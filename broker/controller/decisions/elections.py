"""Requested elections: by an operator, by the balance of leaders, by the unclean rule.

In: the image, the policy, which partitions. Out: records, and the result of each partition. Never:
elections because a broker started or failed (`leadership`). Kafka:
ReplicationControlManager.electLeaders, maybeBalancePartitionLeaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    Pair,
    election_context,
    leader_and_isr_changes,
    partitions_without_leader,
)
from broker.controller.decisions.partition_change import Election, TargetState, change_partition
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.image import NO_LEADER, MetadataImage
from bus.errors import ErrorCode

MAX_ELECTIONS = 1000
"""Elections of one periodic run: the rest follows with the next, soon after (Kafka's number)."""


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The result for one partition."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def elect_leaders(
    image: MetadataImage,
    policy: PartitionPolicy,
    election: Election,
    requested: Sequence[tuple[str, int]] | None,
) -> Decision[tuple[ElectionResult, ...]]:
    """Elects leaders of the named partitions; None: of all partitions that need it."""
    records: list[object] = []
    results: dict[tuple[str, int], ElectionResult] = {}
    for name, index in _all(image) if requested is None else requested:
        record, result = _elect(image, policy, election, name, index)
        if (name, index) in results:
            continue
        if record is not None:
            records.append(record)
        if requested is None and result.error is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results[name, index] = result
    return Decision(tuple(records), tuple(results.values()))


def _all(image: MetadataImage) -> Iterator[tuple[str, int]]:
    return ((topic.name, partition.index) for topic, partition in image.partitions())


def _elect(
    image: MetadataImage, policy: PartitionPolicy, election: Election, name: str, index: int
) -> tuple[object | None, ElectionResult]:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        what = f"topic as {name}" if topic is None else f"partition as {name}-{index}"
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None, ElectionResult(name, index, error, f"No such {what}")
    partition = topic.partitions[index]
    preferred = election is Election.PREFERRED
    if preferred and partition.leader == partition.replicas[0]:
        return None, ElectionResult(name, index, ErrorCode.ELECTION_NOT_NEEDED)
    if election is Election.UNCLEAN and partition.leader != NO_LEADER:
        return None, ElectionResult(name, index, ErrorCode.ELECTION_NOT_NEEDED)
    record = change_partition(
        topic.topic_id,
        partition,
        TargetState(election=election),
        election_context(image, policy, topic, partition),
    )
    if record is None or record.leader in (NO_LEADER, partition.leader):
        error = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        return None, ElectionResult(name, index, error)
    return record, ElectionResult(name, index)


def balance_leaders(image: MetadataImage, policy: PartitionPolicy) -> Decision[bool]:
    """Moves leadership back to preferred replicas (C-BAL); True if there may be more to do."""
    imbalanced = (
        (topic, partition)
        for topic, partition in image.partitions()
        if partition.leader not in (NO_LEADER, partition.replicas[0])
        and partition.replicas[0] in partition.isr
        and image.is_active(partition.replicas[0])
    )
    records: list[object] = []
    for topic, partition in imbalanced:
        record = change_partition(
            topic.topic_id,
            partition,
            TargetState(election=Election.PREFERRED),
            election_context(image, policy, topic, partition),
        )
        if record is not None:
            records.append(record)
        if len(records) >= MAX_ELECTIONS:
            return Decision(tuple(records), True)
    return Decision(tuple(records), False)


def elect_uncleanly(image: MetadataImage, policy: PartitionPolicy) -> Decision[bool]:
    """Elects leaders for partitions without one whose configuration now allows an unclean election
    (KIP-966); True if there may be more to do."""
    allowed = _bounded(
        pair for pair in partitions_without_leader(image)
        if policy.unclean_allowed(image, pair[0].name)
    )
    records = leader_and_isr_changes(image, policy, allowed)
    return Decision(tuple(records), len(records) >= MAX_ELECTIONS)


def _bounded(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for count, pair in enumerate(pairs):
        if count >= MAX_ELECTIONS:
            return
        yield pair
