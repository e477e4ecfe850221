"""Decisions about topics: create and delete; `growth` gives them more partitions.

In: the image, what is asked, ids and a start value drawn by the shell. Out: Kafka's metadata
records and a result per topic. Never: I/O, clock, random numbers. Rules as of Kafka 4.4's
ReplicationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.config.keys import ConfigError
from broker.controller.decisions.configs import check_topic_config, config_records
from broker.controller.decisions.decision import (
    Charge,
    Decision,
    RefusedError,
    free_of_charge,
)
from broker.controller.decisions.mirrored import (
    check_may_be_mirrored,
    mirror_source,
)
from broker.controller.decisions.partition_policy import default_directory
from broker.controller.decisions.placement import (
    assign_replicas,
    checked_factor,
    given_assignments,
    usable_brokers,
)
from broker.controller.decisions.site_epochs import site_epoch
from broker.controller.decisions.topic_names import METADATA_TOPIC, collision_key, name_fault
from broker.metadata.image import MetadataImage, ResourceType, TopicImage
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

MAX_NEW_PARTITIONS = 10_000
"""Partitions of one request: they are one batch of the metadata log."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What -1 means on this cluster. `directories` are those that the deciding broker knows
    itself; of the others the image knows."""

    partitions: int
    replication_factor: int
    directories: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """One topic asked for; -1 is the cluster's default, `assignments` overrules both numbers.

    `assigned_twice`: a partition whose replicas the request names more than once.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assigned_twice: int | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of one topic. The id is zero where it failed."""

    name: str | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1


Results = tuple[TopicResult, ...]


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    defaults: Defaults,
    topic_ids: Iterator[bytes],
    start: int,
    validate_only: bool = False,
    charge: Charge = free_of_charge,
) -> Decision[Results]:
    """Create what is valid; each topic succeeds or fails for itself."""
    records: list[object] = []
    results = []
    taken = {collision_key(name): name for name in image.topics}
    twice = {name for name, count in Counter(t.name for t in topics).items() if count > 1}
    for topic in {topic.name: topic for topic in topics}.values():
        try:
            if topic.name == METADATA_TOPIC:
                raise RefusedError(
                    ErrorCode.INVALID_REQUEST,
                    f"Creation of internal topic {METADATA_TOPIC} is prohibited.",
                )
            if topic.name in twice:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made, result = _create(image, topic, defaults, topic_ids, start, taken)
            if len(records) + len(made) > MAX_NEW_PARTITIONS:
                raise too_many_partitions()
            charge(result.partitions)
            taken[collision_key(topic.name)] = topic.name
            records += made
            results.append(result)
        except RefusedError as error:
            results.append(TopicResult(topic.name, error.refusal.error, error.refusal.message))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _create(
    image: MetadataImage,
    topic: NewTopic,
    defaults: Defaults,
    topic_ids: Iterator[bytes],
    start: int,
    taken: Mapping[str, str],
) -> tuple[list[object], TopicResult]:
    _check_name(image, topic.name, taken)
    assignments = _assignments(image, topic, defaults, start)
    try:
        check_topic_config(topic.configs)
    except ConfigError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    check_may_be_mirrored(topic.name, topic.configs, site_epoch(image))
    topic_id = next(topic_ids)
    records: list[object] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += config_records(ResourceType.TOPIC, topic.name, topic.configs)
    records += [
        partition_record(image, topic_id, index, replicas, defaults)
        for index, replicas in enumerate(assignments)
    ]
    result = TopicResult(
        topic.name,
        topic_id=topic_id,
        partitions=len(assignments),
        replication_factor=len(assignments[0]),
    )
    return records, result


def _check_name(image: MetadataImage, name: str, taken: Mapping[str, str]) -> None:
    fault = name_fault(name)
    if fault is not None:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name in image.topics:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = taken.get(collision_key(name))
    if other is not None:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _assignments(
    image: MetadataImage, topic: NewTopic, defaults: Defaults, start: int
) -> list[tuple[int, ...]]:
    if topic.assignments:
        _check_only_assigned(topic)
        return given_assignments(image, topic.assignments)
    partitions = defaults.partitions if topic.partitions == -1 else topic.partitions
    if partitions <= 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if partitions > MAX_NEW_PARTITIONS:
        raise too_many_partitions()
    factor = topic.replication_factor
    factor = defaults.replication_factor if factor == -1 else factor
    brokers = usable_brokers(image)
    return assign_replicas(brokers, partitions, checked_factor(factor, brokers), start)


def _check_only_assigned(topic: NewTopic) -> None:
    """With replicas by hand both numbers are -1, and each partition has its replicas once."""
    for number, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if number != -1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    if topic.assigned_twice is not None:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {topic.assigned_twice}",
        )


def too_many_partitions() -> RefusedError:
    """They are one batch of the metadata log."""
    return RefusedError(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def partition_record(
    image: MetadataImage,
    topic_id: bytes,
    index: int,
    replicas: Sequence[int],
    defaults: Defaults,
) -> PartitionRecord:
    """A new partition: led by its first replica in service, all of those in sync."""
    isr = [broker for broker in replicas if image.is_active(broker)]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[
            defaults.directories.get(broker) or default_directory(image, broker)
            for broker in replicas
        ],
    )


def delete_topics(
    image: MetadataImage,
    names: Sequence[str],
    ids: Sequence[bytes] = (),
    charge: Charge = free_of_charge,
) -> Decision[Results]:
    """Delete topics by name or by id; each name and each id stands once."""
    results: list[TopicResult] = []
    records: list[object] = []
    named = {topic.topic_id for name in names if (topic := image.topics.get(name))}
    both = named & set(ids)
    wanted: list[tuple[str | bytes, TopicImage | None]] = []
    wanted += [(name, image.topics.get(name)) for name in names]
    wanted += [(topic_id, image.topic_by_id(topic_id)) for topic_id in ids if topic_id not in both]
    for key, topic in wanted:
        if topic is None:
            results.append(_unknown(key))
        elif topic.topic_id in both:
            results.append(_given_twice(topic))
        elif mirror_source(image, topic.name):
            results.append(_mirrored(topic))
        else:
            try:
                charge(len(topic.partitions))
            except RefusedError as error:
                refusal = error.refusal
                results.append(
                    TopicResult(topic.name, refusal.error, refusal.message, topic.topic_id)
                )
                continue
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(TopicResult(topic.name, topic_id=topic.topic_id))
    return Decision(tuple(records), tuple(results))


def _given_twice(topic: TopicImage) -> TopicResult:
    return TopicResult(
        topic.name,
        ErrorCode.INVALID_REQUEST,
        "The provided topic name maps to an ID that was already supplied.",
        topic.topic_id,
    )


def _mirrored(topic: TopicImage) -> TopicResult:
    return TopicResult(
        topic.name,
        ErrorCode.POLICY_VIOLATION,
        f"The topic is mirrored; it can be deleted after {SOURCE_CLUSTER_KEY} has been unset.",
        topic.topic_id,
    )


def _unknown(key: str | bytes) -> TopicResult:
    if isinstance(key, bytes):
        return TopicResult(
            None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.", key
        )
    return TopicResult(
        key,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
