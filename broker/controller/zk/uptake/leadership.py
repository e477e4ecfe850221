"""Partitions without a leader, and `/admin/preferred_replica_election`.

In: a term. Out: its transactions. Never: a leader chosen here; the shared decisions do that.
"""

from __future__ import annotations

import logging

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.elections import elect_leaders
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_without_leader,
)
from broker.controller.decisions.partition_change import Election
from broker.controller.zk import tool_znodes, znodes
from broker.controller.zk.load import (
    UNBORN_EPOCH,
)
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.term import Term
from broker.controller.zk.uptake.tools import read_tool
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def elect_where_nobody_leads(term: Term) -> None:
    """Partitions without a leader get one if a replica that may lead is here (C-PSM-31)."""

    def decide(image: MetadataImage) -> Decision[None]:
        pairs = [pair for pair in partitions_without_leader(image)
                 if pair[1].partition_epoch != UNBORN_EPOCH]
        return Decision(tuple(leader_and_isr_changes(image, term.office.rules(), pairs)), None)

    await term.transact(decide)


async def take_preferred_election(term: Term) -> None:
    """`/admin/preferred_replica_election`: elect, then remove the node, whatever came of it
    (C-PRE-01..07, G-08)."""
    wanted = await read_tool(term, znodes.PREFERRED_ELECTION, tool_znodes.decode_preferred_election)
    if wanted is None:
        return
    results = await term.transact(
        lambda image: elect_leaders(image, term.office.rules(), Election.PREFERRED, wanted)
    )
    for result in results:
        if result.error:
            log.info("no preferred leader for %s-%d: %s", result.topic, result.index,
                     result.message or result.error.name)
    await term.write((Delete(znodes.PREFERRED_ELECTION),))
