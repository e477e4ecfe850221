"""Decisions about the cluster itself: its first records, its brokers, blocks of producer ids.

In: the image and values drawn by the shell. Out: records. Never: I/O, clock, dice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision
from broker.metadata.image import Endpoint, MetadataImage
from bus.protocol.generated.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"

METADATA_VERSION_LEVEL = 21
"""3.9-IV0: the newest level whose records this broker writes (directories of replicas, log dirs
of brokers; no eligible leader replicas yet)."""

KRAFT_VERSION_LEVEL = 1
"""Voters are kept in the log with their directory ids (KIP-853)."""

PRODUCER_ID_BLOCK = 1000
"""Producer ids that one broker takes at a time, as Kafka does."""

SITE_SHIFT = 48
"""A site's number stands in bits 48-55 of every producer id (design: *sites*)."""

UNFENCE = -1


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker that starts."""

    broker_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_dirs: tuple[bytes, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids from `first` on, `end` exclusive."""

    first: int
    end: int


def bootstrap(image: MetadataImage) -> Decision[None]:
    """The records of an empty cluster: the feature levels that are true of it."""
    if image.features:
        return Decision((), None)
    record = FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL)
    return Decision((record,), None)


def register_broker(
    image: MetadataImage, registration: Registration, epoch: int
) -> Decision[int]:
    """A broker came up; it stays fenced until it serves. The reply is its epoch."""
    record = RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(
                name=end.name,
                host=end.host,
                port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in registration.endpoints
        ],
        features=[
            BrokerFeature(
                name=METADATA_VERSION,
                min_supported_version=METADATA_VERSION_LEVEL,
                max_supported_version=METADATA_VERSION_LEVEL,
            )
        ],
        rack=registration.rack,
        fenced=True,
        log_dirs=list(registration.log_dirs),
    )
    return Decision((record,), epoch)


def unfence_broker(image: MetadataImage, broker_id: int) -> Decision[None]:
    """A registered broker serves now and may lead."""
    broker = image.brokers[broker_id]
    if not broker.fenced:
        return Decision((), None)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE
    )
    return Decision((record,), None)


def renew_leadership(image: MetadataImage, broker_id: int) -> Decision[None]:
    """A broker came back from an unclean stop: it leads on under new leader epochs.

    What it may have lost is then visible to consumers as a truncation (KIP-320).
    """
    records = [
        PartitionChangeRecord(
            partition_id=partition.index, topic_id=topic.topic_id, leader=broker_id
        )
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.leader == broker_id
    ]
    return Decision(tuple(records), None)


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int, site: int
) -> Decision[ProducerIdBlock]:
    """The next block, in the range of the site.

    A site's number may be raised later; lowered it would hand out ids again, so the ids then
    stay in the range they are in.
    """
    first = max(image.next_producer_id, site << SITE_SHIFT)
    end = first + PRODUCER_ID_BLOCK
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=end
    )
    return Decision((record,), ProducerIdBlock(first, end))


def endpoints_of(listeners: Sequence[tuple[str, str, int]]) -> tuple[Endpoint, ...]:
    """Endpoints of plaintext listeners (name, host, port)."""
    return tuple(Endpoint(name, host, port) for name, host, port in listeners)
