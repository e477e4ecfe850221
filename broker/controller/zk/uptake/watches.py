"""Which node leads to which function, and all of them in order for a new controller.

In: a watch that fired. Out: what to do about it. Never: it done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from broker.controller.zk import znodes
from broker.controller.zk.port import WatchEvent, WatchKind
from broker.controller.zk.term import Term
from broker.controller.zk.uptake.brokers import remove_the_dead, take_brokers
from broker.controller.zk.uptake.deletions import finish_deletions, take_deletions
from broker.controller.zk.uptake.directories import take_failed_directories
from broker.controller.zk.uptake.isr_changes import take_isr_changes
from broker.controller.zk.uptake.leadership import (
    elect_where_nobody_leads,
    take_preferred_election,
)
from broker.controller.zk.uptake.partitions import bear_partitions
from broker.controller.zk.uptake.reassignments import take_reassignment
from broker.controller.zk.uptake.topics import take_topic, take_topics

Take = Callable[[Term], Awaitable[None]]

CHILDREN: Mapping[str, Take] = {
    znodes.BROKER_IDS: take_brokers,
    znodes.TOPICS: take_topics,
    znodes.DELETE_TOPICS: take_deletions,
    znodes.ISR_CHANGES: take_isr_changes,
    znodes.LOG_DIR_EVENTS: take_failed_directories,
}
"""Nodes whose children are watched."""

DATA: Mapping[str, Take] = {
    znodes.REASSIGN: take_reassignment,
    znodes.PREFERRED_ELECTION: take_preferred_election,
}
"""Nodes whose coming is watched."""


def taking(event: WatchEvent) -> Take | None:
    """What a watch leads to, None if it is nobody's."""
    if event.kind is WatchKind.CHILDREN and event.path in CHILDREN:
        return CHILDREN[event.path]
    if event.path in DATA:
        return DATA[event.path]
    if event.path.startswith(f"{znodes.TOPICS}/") and event.kind is WatchKind.CHANGED:
        name = event.path.removeprefix(f"{znodes.TOPICS}/")

        async def take(term: Term) -> None:
            await take_topic(term, name)
            await bear_partitions(term)

        return take
    return None


async def take_all(term: Term) -> None:
    """A new controller brings everything in order (C-FO-05..09)."""
    term.is_reread_due = False
    if term.unnamed_topics:
        await take_topics(term)
    await remove_the_dead(term)
    await take_brokers(term)
    await bear_partitions(term)
    await elect_where_nobody_leads(term)
    await finish_deletions(term)
    for take in (
        take_deletions, take_reassignment, take_preferred_election, take_isr_changes,
        take_failed_directories,
    ):
        await take(term)
