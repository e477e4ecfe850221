"""The partition changes when a broker starts or fails.

In: the image, the policy, which broker starts or fails. Out: PartitionChangeRecords. Never: why it
failed. Kafka: ReplicationControlManager.generateLeaderAndIsrUpdates.

Every function scans the partitions of the image once: with ten thousand of them that is about a
millisecond, less than an index would cost in memory on every broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from broker.controller.decisions.partition_change import (
    Election,
    ElectionContext,
    MayLead,
    TargetState,
    change_partition,
)
from broker.controller.decisions.partition_policy import PartitionPolicy, default_directory
from broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from bus.protocol.generated.metadata_records import PartitionChangeRecord

Pair = tuple[TopicImage, PartitionImage]

NOBODY = -1


def election_context(
    image: MetadataImage,
    policy: PartitionPolicy,
    topic: TopicImage,
    partition: PartitionImage,
    may_lead: MayLead | None = None,
) -> ElectionContext:
    """The conditions under which one partition changes."""
    return ElectionContext(
        may_lead=may_lead or partial(may_lead_now, image, partition),
        min_isr=policy.min_isr(image, topic.name),
        elr_enabled=image.elr_enabled,
        with_directories=image.metadata_version > 0,
        default_directory=partial(default_directory, image),
    )


def may_lead_now(image: MetadataImage, partition: PartitionImage, broker_id: int) -> bool:
    """Whether a broker is active and its replica's directory is not lost."""
    broker = image.brokers.get(broker_id)
    return (
        broker is not None
        and broker.is_active
        and broker.has_online_directory(partition.directory_of(broker_id))
    )


def leader_and_isr_changes(
    image: MetadataImage,
    policy: PartitionPolicy,
    partitions: Iterable[Pair],
    *,
    remove: int = NOBODY,
    add: int = NOBODY,
    unclean_shutdown: int = NOBODY,
) -> list[PartitionChangeRecord]:
    """One broker leaves the in-sync sets of `partitions` (`unclean_shutdown`: its log may have lost
    records) or may now lead them (`add`)."""
    gone = {remove, unclean_shutdown} - {NOBODY}
    lost = (unclean_shutdown,) if unclean_shutdown != NOBODY else ()
    records = []
    for topic, partition in partitions:
        may_lead = partial(_may_lead, image, partition, frozenset(gone), add)
        target = TargetState(
            isr=tuple(one for one in partition.isr if one not in gone),
            unclean_shutdown=lost,
            election=(
                Election.UNCLEAN if policy.unclean_allowed(image, topic.name) else Election.ONLINE
            ),
        )
        context = election_context(image, policy, topic, partition, may_lead)
        record = change_partition(topic.topic_id, partition, target, context)
        if record is not None:
            records.append(record)
    return records


def _may_lead(
    image: MetadataImage, partition: PartitionImage, gone: frozenset[int], add: int, broker: int
) -> bool:
    if broker in gone or broker == NO_LEADER:
        return False
    if broker == add:
        held = image.brokers.get(broker)
        return held is not None and held.has_online_directory(partition.directory_of(broker))
    return may_lead_now(image, partition, broker)


def partitions_in_isr(image: MetadataImage, broker_id: int) -> Iterator[Pair]:
    """Partitions that have a broker in their in-sync set."""
    return (pair for pair in image.partitions() if broker_id in pair[1].isr)


def partitions_in_isr_or_elr(image: MetadataImage, broker_id: int) -> Iterator[Pair]:
    """Partitions that have a broker in their in-sync set or among their eligible leaders."""
    return (
        pair
        for pair in image.partitions()
        if broker_id in pair[1].isr or broker_id in pair[1].elr
    )


def partitions_without_leader(image: MetadataImage) -> Iterator[Pair]:
    """Partitions without a leader."""
    return (pair for pair in image.partitions() if pair[1].leader == NO_LEADER)


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    """Whether a broker leads a partition."""
    return any(partition.leader == broker_id for _, partition in image.partitions())
