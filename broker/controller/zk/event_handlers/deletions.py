"""`/admin/delete_topics`: topics being deleted. A topic's nodes are removed only when every replica
has confirmed that its log is deleted."""

from __future__ import annotations

import logging

from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.port import (
    Delete,
    Operation,
)
from broker.controller.zk.state_reader import (
    children_or_none,
    in_chunks,
)
from broker.metadata.image import TopicImage
from bus.protocol.generated.metadata_records import (
    RemoveTopicRecord,
)

log = logging.getLogger("broker.controller.zk")

MAX_DELETES = 300
"""Nodes of a deleted topic that are removed in one `multi`."""


async def on_topic_deletion(context: ControllerContext) -> None:
    """`/admin/delete_topics`: topics to delete; markers of unknown ones are removed."""
    names = await children_or_none(context.deps.session, znodes.DELETE_TOPICS, watch=True)
    if not context.deps.deletion_enabled():
        return
    for name in names:
        if name in context.deletions.topics:
            continue
        topic = context.image.topics.get(name)
        if topic is None:
            await context.write((Delete(f"{znodes.DELETE_TOPICS}/{name}"),))
            continue
        log.info("topic %s is to be deleted", name)
        context.replay((RemoveTopicRecord(topic_id=topic.topic_id),))
        context.begin_deletion(topic)


async def finish_deletions(context: ControllerContext) -> None:
    """Removes topics whose replicas are all deleted from ZooKeeper: the marker last (C-DEL-25)."""
    for topic in context.deletions.complete():
        operations = await _removal(context, topic)
        done = True
        for start in range(0, len(operations), MAX_DELETES):
            done = done and await context.write(operations[start : start + MAX_DELETES])
        if done:
            context.deletions.finish(topic)
            context.topic_versions.pop(topic.name, None)
            context.watched_topics.discard(topic.name)
            context.config_nodes.pop(f"{znodes.CONFIG_TOPICS}/{topic.name}", None)
            log.info("topic %s is deleted", topic.name)


async def _removal(context: ControllerContext, topic: TopicImage) -> list[Operation]:
    """Children before parents, as they are now: some may have been removed by hand."""
    session = context.deps.session
    paths = []
    for partition in topic.partitions:
        node = znodes.partition_path(topic.name, partition.index)
        paths += [f"{node}/state", node]
    path = znodes.topic_path(topic.name)
    paths += [f"{path}/partitions", path, f"{znodes.CONFIG_TOPICS}/{topic.name}",
              f"{znodes.DELETE_TOPICS}/{topic.name}"]
    stats = await in_chunks(paths, session.exists)
    return [Delete(one) for one, stat in zip(paths, stats, strict=True) if stat is not None]
