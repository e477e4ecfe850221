"""`/log_dir_event_notification`: log directories that have failed (KIP-112).

In: a term. Out: questions to the broker, then transactions about what it has lost. Never: a replica
given up that its broker has not answered for.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
)
from broker.controller.zk import tool_znodes, znodes
from broker.controller.zk.load import (
    children_or_none,
    get_or_none,
)
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.term import Term
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def take_failed_directories(term: Term) -> None:
    """`/log_dir_event_notification`: a broker that lost a directory is told of all its replicas
    again; those that it answers KAFKA_STORAGE_ERROR for are lost (`replicas_lost`)."""
    folder = znodes.LOG_DIR_EVENTS
    names = await children_or_none(term.office.session, folder, watch=True)
    for name in names:
        found = await get_or_none(term.office.session, f"{folder}/{name}")
        try:
            if found is not None:
                broker_id = tool_znodes.decode_failed_directory(f"{folder}/{name}", found[0])
                term.tracking.tell_broker(term.image, broker_id)
        except znodes.ZnodeError as error:
            log.error("removed: %s", error)
    term.lines.wake()
    if names:
        await term.write(Delete(f"{folder}/{name}") for name in names)


async def replicas_lost(term: Term, broker_id: int, lost: Collection[PartitionId]) -> None:
    """A broker's directory failed: its replicas there are out of sync and lead nothing, until it
    registers anew (KIP-112)."""

    def decide(image: MetadataImage) -> Decision[None]:
        pairs = [pair for pair in partitions_in_isr(image, broker_id)
                 if (pair[0].topic_id, pair[1].index) in lost]
        rules = term.office.rules()
        return Decision(
            tuple(leader_and_isr_changes(image, rules, pairs, remove=broker_id)), None
        )

    await term.transact(decide)
