"""Partitions without a leader, and `/admin/preferred_replica_election`. The shared decisions choose
the leaders."""

from __future__ import annotations

import logging

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.elections import elect_leaders
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_without_leader,
)
from broker.controller.decisions.partition_change import Election
from broker.controller.zk import admin_znodes, znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_handlers.admin_requests import read_admin_request
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.state_reader import (
    UNINITIALIZED_EPOCH,
)
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def elect_missing_leaders(context: ControllerContext) -> None:
    """Elects leaders for partitions without one where a replica may lead (C-PSM-31)."""

    def decide(image: MetadataImage) -> Decision[None]:
        pairs = [pair for pair in partitions_without_leader(image)
                 if pair[1].partition_epoch != UNINITIALIZED_EPOCH]
        return Decision(tuple(leader_and_isr_changes(image, context.deps.policy(), pairs)), None)

    await context.transact(decide)


async def on_preferred_election(context: ControllerContext) -> None:
    """`/admin/preferred_replica_election`: elects, then removes the node, regardless of the results
    (C-PRE-01..07, G-08)."""
    requested = await read_admin_request(
        context, znodes.PREFERRED_ELECTION, admin_znodes.decode_preferred_election
    )
    if requested is None:
        return
    results = await context.transact(
        lambda image: elect_leaders(image, context.deps.policy(), Election.PREFERRED, requested)
    )
    for result in results:
        if result.error:
            log.info("no preferred leader for %s-%d: %s", result.topic, result.index,
                     result.message or result.error.name)
    await context.write((Delete(znodes.PREFERRED_ELECTION),))
