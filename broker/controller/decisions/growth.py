"""The decision to give topics more partitions.

In: the image, what is asked, a start value drawn by the shell. Out: PartitionRecords and a result
per topic. Never: I/O, clock, dice. A topic never shrinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.placement import (
    check_replicas,
    checked_factor,
    place,
    places,
)
from broker.controller.decisions.topics import (
    MAX_NEW_PARTITIONS,
    Defaults,
    Results,
    TopicResult,
    partition_record,
    too_many_partitions,
)
from broker.metadata.image import MetadataImage, TopicImage
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import PartitionRecord


@dataclass(frozen=True, slots=True)
class Growth:
    """A topic that shall have `total` partitions."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


def create_partitions(
    image: MetadataImage,
    growths: Sequence[Growth],
    defaults: Defaults,
    start: int,
    validate_only: bool = False,
) -> Decision[Results]:
    """Give topics more partitions; a topic never shrinks."""
    records: list[object] = []
    results = []
    twice = {name for name, count in Counter(g.name for g in growths).items() if count > 1}
    for growth in {growth.name: growth for growth in growths}.values():
        try:
            if growth.name in twice:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _grow(image, growth, defaults, start)
            results.append(TopicResult(growth.name))
        except RefusedError as error:
            results.append(TopicResult(growth.name, error.refusal.error, error.refusal.message))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _grow(
    image: MetadataImage, growth: Growth, defaults: Defaults, start: int
) -> list[PartitionRecord]:
    topic = image.topics.get(growth.name)
    if topic is None or not topic.partitions:
        # Under ZooKeeper a topic is known before its partitions: its creator is still at work.
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    have = len(topic.partitions)
    more = growth.total - have
    if more <= 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {growth.name} currently has {have} partition(s); {growth.total} would "
            f"not be an increase."
            if more
            else f"Topic already has {have} partition(s).",
        )
    if more > MAX_NEW_PARTITIONS:
        raise too_many_partitions()
    added = _added_replicas(image, topic, growth, more, start)
    return [
        partition_record(image, topic.topic_id, have + position, replicas, defaults)
        for position, replicas in enumerate(added)
    ]


def _added_replicas(
    image: MetadataImage, topic: TopicImage, growth: Growth, more: int, start: int
) -> Sequence[tuple[int, ...]]:
    brokers = places(image)
    factor = len(topic.partitions[0].replicas)
    if growth.assignments is None:
        return place(brokers, more, checked_factor(factor, brokers), start)
    if len(growth.assignments) != more:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(growth.assignments)} assignment(s) were specified.",
        )
    for index, replicas in enumerate(growth.assignments, len(topic.partitions)):
        check_replicas(image, index, replicas, factor)
    return growth.assignments
