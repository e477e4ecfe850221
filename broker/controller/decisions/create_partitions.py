"""The decision to give topics more partitions.

In: the image, what is asked, a start value drawn by the shell. Out: PartitionRecords and a result
per topic. Never: I/O, clock, random numbers. A topic never shrinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import (
    Charge,
    Decision,
    RefusedError,
    free_of_charge,
)
from broker.controller.decisions.placement import (
    assign_replicas,
    check_replicas,
    checked_factor,
    usable_brokers,
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
class NewPartitions:
    """A topic that is to have `total` partitions."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


def create_partitions(
    image: MetadataImage,
    requests: Sequence[NewPartitions],
    defaults: Defaults,
    start: int,
    validate_only: bool = False,
    charge: Charge = free_of_charge,
) -> Decision[Results]:
    """Adds partitions to topics; a topic never shrinks."""
    records: list[object] = []
    results = []
    twice = {
        name for name, count in Counter(request.name for request in requests).items() if count > 1
    }
    for request in {request.name: request for request in requests}.values():
        try:
            if request.name in twice:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _add_partitions(image, request, defaults, start)
            charge(len(added))
            records += added
            results.append(TopicResult(request.name))
        except RefusedError as error:
            results.append(TopicResult(request.name, error.refusal.error, error.refusal.message))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _add_partitions(
    image: MetadataImage, request: NewPartitions, defaults: Defaults, start: int
) -> list[PartitionRecord]:
    topic = image.topics.get(request.name)
    if topic is None or not topic.partitions:
        # Under ZooKeeper a topic is known before its partitions, while it is being created.
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    have = len(topic.partitions)
    more = request.total - have
    if more <= 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {request.name} currently has {have} partition(s); {request.total} would "
            f"not be an increase."
            if more
            else f"Topic already has {have} partition(s).",
        )
    if more > MAX_NEW_PARTITIONS:
        raise too_many_partitions()
    added = _added_replicas(image, topic, request, more, start)
    return [
        partition_record(image, topic.topic_id, have + position, replicas, defaults)
        for position, replicas in enumerate(added)
    ]


def _added_replicas(
    image: MetadataImage, topic: TopicImage, request: NewPartitions, more: int, start: int
) -> Sequence[tuple[int, ...]]:
    brokers = usable_brokers(image)
    factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        return assign_replicas(brokers, more, checked_factor(factor, brokers), start)
    if len(request.assignments) != more:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified.",
        )
    for index, replicas in enumerate(request.assignments, len(topic.partitions)):
        check_replicas(image, index, replicas, factor)
    return request.assignments
