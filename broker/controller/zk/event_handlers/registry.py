"""Maps znodes to their handlers, and calls all of them for a new controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_handlers.brokers import on_broker_change, remove_offline_brokers
from broker.controller.zk.event_handlers.deletions import finish_deletions, on_topic_deletion
from broker.controller.zk.event_handlers.directories import on_log_dir_event
from broker.controller.zk.event_handlers.isr_changes import on_isr_change
from broker.controller.zk.event_handlers.leadership import (
    elect_missing_leaders,
    on_preferred_election,
)
from broker.controller.zk.event_handlers.partitions import initialize_partitions
from broker.controller.zk.event_handlers.reassignments import on_reassignment
from broker.controller.zk.event_handlers.topics import on_partition_modification, on_topic_change
from broker.controller.zk.port import WatchEvent, WatchKind

EventHandler = Callable[[ControllerContext], Awaitable[None]]

CHILD_HANDLERS: Mapping[str, EventHandler] = {
    znodes.BROKER_IDS: on_broker_change,
    znodes.TOPICS: on_topic_change,
    znodes.DELETE_TOPICS: on_topic_deletion,
    znodes.ISR_CHANGES: on_isr_change,
    znodes.LOG_DIR_EVENTS: on_log_dir_event,
}
"""Nodes whose children are watched."""

NODE_HANDLERS: Mapping[str, EventHandler] = {
    znodes.REASSIGN: on_reassignment,
    znodes.PREFERRED_ELECTION: on_preferred_election,
}
"""Nodes whose creation is watched."""


def handler_for(event: WatchEvent) -> EventHandler | None:
    """The handler of a watch, None if there is none."""
    if event.kind is WatchKind.CHILDREN and event.path in CHILD_HANDLERS:
        return CHILD_HANDLERS[event.path]
    if event.path in NODE_HANDLERS:
        return NODE_HANDLERS[event.path]
    if event.path.startswith(f"{znodes.TOPICS}/") and event.kind is WatchKind.CHANGED:
        name = event.path.removeprefix(f"{znodes.TOPICS}/")

        async def handle(context: ControllerContext) -> None:
            await on_partition_modification(context, name)
            await initialize_partitions(context)

        return handle
    return None


async def resync_all(context: ControllerContext) -> None:
    """A new controller brings everything up to date (C-FO-05..09)."""
    context.is_resync_due = False
    if context.has_topics_without_id:
        await on_topic_change(context)
    await remove_offline_brokers(context)
    await on_broker_change(context)
    await initialize_partitions(context)
    await elect_missing_leaders(context)
    await finish_deletions(context)
    for handle in (
        on_topic_deletion, on_reassignment, on_preferred_election, on_isr_change,
        on_log_dir_event,
    ):
        await handle(context)
