"""Elections that are asked for: by an operator, by the balance of leaders, by the unclean rule.

In: the image, the rules, which partitions. Out: records, and what became of each partition.
Never: elections because a broker came or went (`leadership`). Kafka:
ReplicationControlManager.electLeaders, maybeBalancePartitionLeaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    Pair,
    leader_and_isr_changes,
    partitions_without_leader,
    terms_for,
)
from broker.controller.decisions.partition_change import Election, Wanted, change_partition
from broker.controller.decisions.rules import Rules
from broker.metadata.image import NO_LEADER, MetadataImage
from bus.errors import ErrorCode

MAX_ELECTIONS = 1000
"""Elections of one periodic run: the rest comes with the next, soon after (Kafka's number)."""


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What became of one partition."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def elect_leaders(
    image: MetadataImage,
    rules: Rules,
    election: Election,
    wanted: Sequence[tuple[str, int]] | None,
) -> Decision[tuple[ElectionResult, ...]]:
    """Elect for the partitions named; of all, where None is, those that need it."""
    records: list[object] = []
    results: dict[tuple[str, int], ElectionResult] = {}
    for name, index in _all(image) if wanted is None else wanted:
        record, result = _elect(image, rules, election, name, index)
        if (name, index) in results:
            continue
        if record is not None:
            records.append(record)
        if wanted is None and result.error is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results[name, index] = result
    return Decision(tuple(records), tuple(results.values()))


def _all(image: MetadataImage) -> Iterator[tuple[str, int]]:
    return ((topic.name, partition.index) for topic, partition in image.partitions())


def _elect(
    image: MetadataImage, rules: Rules, election: Election, name: str, index: int
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
        Wanted(election=election),
        terms_for(image, rules, topic, partition),
    )
    if record is None or record.leader in (NO_LEADER, partition.leader):
        error = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        return None, ElectionResult(name, index, error)
    return record, ElectionResult(name, index)


def balance_leaders(image: MetadataImage, rules: Rules) -> Decision[bool]:
    """Give leadership back to preferred replicas (C-BAL); True if there may be more to do."""
    wandered = (
        (topic, partition)
        for topic, partition in image.partitions()
        if partition.leader not in (NO_LEADER, partition.replicas[0])
        and partition.replicas[0] in partition.isr
        and image.is_active(partition.replicas[0])
    )
    records: list[object] = []
    for topic, partition in wandered:
        record = change_partition(
            topic.topic_id,
            partition,
            Wanted(election=Election.PREFERRED),
            terms_for(image, rules, topic, partition),
        )
        if record is not None:
            records.append(record)
        if len(records) >= MAX_ELECTIONS:
            return Decision(tuple(records), True)
    return Decision(tuple(records), False)


def elect_uncleanly(image: MetadataImage, rules: Rules) -> Decision[bool]:
    """Partitions without a leader whose configuration allows an unclean election by now (KIP-966);
    True if there may be more to do."""
    allowed = _bounded(
        pair for pair in partitions_without_leader(image)
        if rules.unclean_allowed(image, pair[0].name)
    )
    records = leader_and_isr_changes(image, rules, allowed)
    return Decision(tuple(records), len(records) >= MAX_ELECTIONS)


def _bounded(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for count, pair in enumerate(pairs):
        if count >= MAX_ELECTIONS:
            return
        yield pair
