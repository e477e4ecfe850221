"""`/admin/reassign_partitions`: the reassignments a tool requested, and which of them are
unfinished."""

from __future__ import annotations

import logging

from broker.controller.decisions.reassignment import Reassignment, alter_reassignments
from broker.controller.zk import admin_znodes, znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_handlers.admin_requests import read_admin_request
from broker.controller.zk.port import (
    Delete,
    SetData,
)
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def on_reassignment(context: ControllerContext) -> None:
    """`/admin/reassign_partitions`: starts what is requested and not started (C-RA-01..09)."""
    requested = await read_admin_request(context, znodes.REASSIGN, admin_znodes.decode_reassignment)
    if requested is None:
        context.pending_reassignments.clear()
        return
    reassignments = [
        Reassignment(topic, index, replicas)
        for (topic, index), replicas in requested.items()
        if (topic, index) not in context.pending_reassignments
    ]
    if reassignments:
        results = await context.transact(
            lambda image: alter_reassignments(image, context.deps.policy(), reassignments)
        )
        for result in results:
            if result.error:
                log.error("no reassignment of %s-%d: %s", result.topic, result.index,
                          result.message or result.error.name)
    context.pending_reassignments = dict.fromkeys(requested)
    await finish_reassignments(context, requested)


async def finish_reassignments(
    context: ControllerContext, requested: dict[tuple[str, int], tuple[int, ...]] | None = None
) -> None:
    """Removes what is done, or failed, from the node; an empty node is removed (G-07)."""
    if not context.pending_reassignments:
        return
    still_moving = {
        one: None for one in context.pending_reassignments if _is_moving(context.image, *one)
    }
    if requested is None:
        if len(still_moving) == len(context.pending_reassignments):
            return
        requested = (
            await read_admin_request(context, znodes.REASSIGN, admin_znodes.decode_reassignment)
            or {}
        )
    context.pending_reassignments = still_moving
    left = {one: replicas for one, replicas in requested.items() if one in still_moving}
    if not left:
        await context.write((Delete(znodes.REASSIGN),))
    elif len(left) < len(requested):
        await context.write((SetData(znodes.REASSIGN, admin_znodes.encode_reassignment(left)),))


def _is_moving(image: MetadataImage, topic: str, index: int) -> bool:
    held = image.topics.get(topic)
    return (
        held is not None and index < len(held.partitions) and held.partitions[index].is_reassigning
    )
