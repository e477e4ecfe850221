"""`/log_dir_event_notification`: log directories that have failed (KIP-112). A replica is removed
from the in-sync set only after its broker has reported it."""

from __future__ import annotations

import logging
from collections.abc import Collection

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
)
from broker.controller.zk import admin_znodes, znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.state_reader import (
    children_or_none,
    get_or_none,
)
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def on_log_dir_event(context: ControllerContext) -> None:
    """`/log_dir_event_notification`: a broker that lost a directory is sent all its replicas again;
    those that it answers KAFKA_STORAGE_ERROR for are lost (`on_replicas_lost`)."""
    folder = znodes.LOG_DIR_EVENTS
    names = await children_or_none(context.deps.session, folder, watch=True)
    for name in names:
        found = await get_or_none(context.deps.session, f"{folder}/{name}")
        try:
            if found is not None:
                broker_id = admin_znodes.decode_failed_directory(f"{folder}/{name}", found[0])
                context.tracking.queue_full_update_for(context.image, broker_id)
        except znodes.ZnodeError as error:
            log.error("removed: %s", error)
    context.request_queues.send_pending()
    if names:
        await context.write(Delete(f"{folder}/{name}") for name in names)


async def on_replicas_lost(
    context: ControllerContext, broker_id: int, lost: Collection[PartitionId]
) -> None:
    """A broker's directory failed: its replicas there are out of sync and lead nothing, until it
    registers again (KIP-112)."""

    def decide(image: MetadataImage) -> Decision[None]:
        pairs = [pair for pair in partitions_in_isr(image, broker_id)
                 if (pair[0].topic_id, pair[1].index) in lost]
        rules = context.deps.policy()
        return Decision(
            tuple(leader_and_isr_changes(image, rules, pairs, remove=broker_id)), None
        )

    await context.transact(decide)
