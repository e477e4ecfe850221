"""Decisions about the cluster itself: its first records, its brokers, blocks of producer ids.

In: the image and values drawn by the shell. Out: records. Never: I/O, clock, dice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from broker.controller.decisions import brokers
from broker.controller.decisions.brokers import Done, Registration
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.features import bootstrap, supported_ranges
from broker.controller.decisions.rules import Rules
from broker.metadata.image import Endpoint, MetadataImage
from bus.errors import check
from bus.protocol.generated.metadata_records import PartitionChangeRecord, ProducerIdsRecord

__all__ = [
    "ProducerIdBlock",
    "Registration",
    "allocate_producer_ids",
    "bootstrap",
    "endpoints_of",
    "register_broker",
    "renew_leadership",
    "unfence_broker",
]

PRODUCER_ID_BLOCK = 1000
"""Producer ids that one broker takes at a time, as Kafka does."""

SITE_SHIFT = 48
"""A site's number stands in bits 48-55 of every producer id (design: *sites*)."""

@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids from `first` on, `end` exclusive."""

    first: int
    end: int


def register_broker(
    image: MetadataImage, registration: Registration, epoch: int
) -> Decision[int]:
    """This node's own broker, with its own controller: nobody else can have its id."""
    held = image.brokers.get(registration.broker_id)
    asked = replace(
        registration,
        features=supported_ranges(),
        previous_epoch=-1 if held is None else held.epoch,
    )
    decision = brokers.register(image, Rules(), asked, epoch)
    check(not decision.reply.error, f"a broker's own controller takes it: {decision.reply}")
    return Decision(decision.records, decision.reply.epoch)


def unfence_broker(image: MetadataImage, broker_id: int) -> Decision[Done]:
    """A registered broker serves now and may lead."""
    return brokers.unfence(image, Rules(), broker_id, image.brokers[broker_id].epoch)


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
