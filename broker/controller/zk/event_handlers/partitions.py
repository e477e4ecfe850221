"""Partitions that have an assignment but no state are initialized (C-NTC-02..05), once one of their
replicas is alive."""

from __future__ import annotations

from broker.controller.decisions.decision import Decision
from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.port import (
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from broker.controller.zk.state_reader import (
    UNINITIALIZED_EPOCH,
)
from broker.metadata.image import MetadataImage, TopicImage
from bus.protocol.generated.metadata_records import (
    PartitionRecord,
)


async def initialize_partitions(context: ControllerContext) -> None:
    """Writes the first state of partitions that have only an assignment (C-NTC-02..05)."""
    uninitialized = _uninitialized(context.image)
    if not uninitialized:
        return
    for name, index in uninitialized:
        await _ensure(context, f"{znodes.topic_path(name)}/partitions")
        await _ensure(context, znodes.partition_path(name, index))

    def decide(image: MetadataImage) -> Decision[None]:
        return Decision(
            tuple(
                _initial_state(image, image.topics[name], index)
                for name, index in _uninitialized(image)
                if (name, index) in uninitialized
            ),
            None,
        )

    await context.transact(decide, assigned=True)


def _uninitialized(image: MetadataImage) -> dict[tuple[str, int], None]:
    return {
        (topic.name, partition.index): None
        for topic, partition in image.partitions()
        if partition.partition_epoch == UNINITIALIZED_EPOCH
        and any(image.is_active(replica) for replica in partition.replicas)
    }


def _initial_state(image: MetadataImage, topic: TopicImage, index: int) -> PartitionRecord:
    """The leader is the first live replica; all live ones are in sync (C-PSM-15)."""
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


async def _ensure(context: ControllerContext, path: str) -> None:
    try:
        await context.deps.session.create(path)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise
