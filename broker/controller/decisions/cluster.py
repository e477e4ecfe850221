"""Decisions about the cluster as a whole: its first records, blocks of producer ids.

In: the image and values drawn by the shell. Out: records. Never: I/O, clock, random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.features import bootstrap
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import ProducerIdsRecord

__all__ = ["ProducerIdBlock", "allocate_producer_ids", "bootstrap"]

PRODUCER_ID_BLOCK = 1000
"""Producer ids that one broker takes at a time, as Kafka does."""

SITE_SHIFT = 48
"""A site's number stands in bits 48-55 of every producer id, so that no two sites share one."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids from `first` on, `end` exclusive."""

    first: int
    end: int


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
