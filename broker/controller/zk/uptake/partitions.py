"""Partitions that have an assignment but no state: they come into being (C-NTC-02..05).

In: a term. Out: their first state. Never: a partition none of whose replicas is here.
"""

from __future__ import annotations

from broker.controller.decisions.decision import Decision
from broker.controller.zk import znodes
from broker.controller.zk.load import (
    UNBORN_EPOCH,
)
from broker.controller.zk.port import (
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from broker.controller.zk.term import Term
from broker.metadata.image import MetadataImage, TopicImage
from bus.protocol.generated.metadata_records import (
    PartitionRecord,
)


async def bear_partitions(term: Term) -> None:
    """Partitions that have an assignment but no state come into being (C-NTC-02..05)."""
    unborn = _unborn(term.image)
    if not unborn:
        return
    for name, index in unborn:
        await _ensure(term, f"{znodes.topic_path(name)}/partitions")
        await _ensure(term, znodes.partition_path(name, index))

    def decide(image: MetadataImage) -> Decision[None]:
        return Decision(
            tuple(
                _born(image, image.topics[name], index)
                for name, index in _unborn(image)
                if (name, index) in unborn
            ),
            None,
        )

    await term.transact(decide, assigned=True)


def _unborn(image: MetadataImage) -> dict[tuple[str, int], None]:
    return {
        (topic.name, partition.index): None
        for topic, partition in image.partitions()
        if partition.partition_epoch == UNBORN_EPOCH
        and any(image.is_active(replica) for replica in partition.replicas)
    }


def _born(image: MetadataImage, topic: TopicImage, index: int) -> PartitionRecord:
    """Leader is the first live replica, in sync are all live ones (C-PSM-15)."""
    partition = topic.partitions[index]
    alive = [replica for replica in partition.replicas if image.is_active(replica)]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=alive,
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=alive[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[],
    )


async def _ensure(term: Term, path: str) -> None:
    try:
        await term.office.session.create(path)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise
