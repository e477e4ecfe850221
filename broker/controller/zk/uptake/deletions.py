"""`/admin/delete_topics`: topics on their way out.

In: a term. Out: deletions begun; nodes of topics removed. Never: a node removed before every
replica has said that its log is gone.
"""

from __future__ import annotations

import logging

from broker.controller.zk import znodes
from broker.controller.zk.load import (
    children_or_none,
    in_chunks,
)
from broker.controller.zk.port import (
    Delete,
    Operation,
)
from broker.controller.zk.term import Term
from broker.metadata.image import TopicImage
from bus.protocol.generated.metadata_records import (
    RemoveTopicRecord,
)

log = logging.getLogger("broker.controller.zk")

MAX_DELETES = 300
"""Nodes of a deleted topic that go in one `multi`."""


async def take_deletions(term: Term) -> None:
    """`/admin/delete_topics`: topics somebody wants gone; markers of unknown ones are removed."""
    names = await children_or_none(term.office.session, znodes.DELETE_TOPICS, watch=True)
    if not term.office.deletion_enabled():
        return
    for name in names:
        if name in term.deletions.topics:
            continue
        topic = term.image.topics.get(name)
        if topic is None:
            await term.write((Delete(f"{znodes.DELETE_TOPICS}/{name}"),))
            continue
        log.info("topic %s is to be deleted", name)
        term.replay((RemoveTopicRecord(topic_id=topic.topic_id),))
        term.begin_deletion(topic)


async def finish_deletions(term: Term) -> None:
    """Topics whose replicas are all gone leave ZooKeeper: the marker last (C-DEL-25)."""
    for topic in term.deletions.complete():
        operations = await _removal(term, topic)
        done = True
        for start in range(0, len(operations), MAX_DELETES):
            done = done and await term.write(operations[start : start + MAX_DELETES])
        if done:
            term.deletions.finish(topic)
            term.topic_versions.pop(topic.name, None)
            term.watched_topics.discard(topic.name)
            term.config_nodes.pop(f"{znodes.CONFIG_TOPICS}/{topic.name}", None)
            log.info("topic %s is deleted", topic.name)


async def _removal(term: Term, topic: TopicImage) -> list[Operation]:
    """Children before parents, as they are now: somebody may have removed some."""
    session = term.office.session
    paths = []
    for partition in topic.partitions:
        node = znodes.partition_path(topic.name, partition.index)
        paths += [f"{node}/state", node]
    path = znodes.topic_path(topic.name)
    paths += [f"{path}/partitions", path, f"{znodes.CONFIG_TOPICS}/{topic.name}",
              f"{znodes.DELETE_TOPICS}/{topic.name}"]
    stats = await in_chunks(paths, session.exists)
    return [Delete(one) for one, stat in zip(paths, stats, strict=True) if stat is not None]
