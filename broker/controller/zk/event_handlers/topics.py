"""`/brokers/topics` and each topic below it: topics created, extended or removed by hand.

A topic without an id gets one. No log is deleted here, and a malformed topic node is left
unchanged.
"""

from __future__ import annotations

import logging

from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.event_handlers.partitions import initialize_partitions
from broker.controller.zk.port import (
    SetData,
)
from broker.controller.zk.state_reader import (
    UNINITIALIZED_EPOCH,
    TopicMetadata,
    get_or_none,
    in_chunks,
    partition_record,
    read_topic,
)
from broker.controller.zk.znodes import ConfigNode
from bus.protocol.generated.metadata_records import (
    RemoveTopicRecord,
)

log = logging.getLogger("broker.controller.zk")


async def on_topic_change(context: ControllerContext) -> None:
    """`/brokers/topics`: topics that are new or gone; each new one is watched from now on."""
    session = context.deps.session
    names = await session.children(znodes.TOPICS, watch=True)
    known = context.topic_versions
    for topic in await in_chunks(
        [name for name in names if name not in known],
        lambda name: _read_topic(context, name),
    ):
        if topic is not None:
            await _on_new_topic(context, topic)
    await in_chunks(
        [name for name in names if name in known and name not in context.watched_topics],
        lambda name: on_partition_modification(context, name),
    )
    for name in sorted(set(known) - set(names)):
        _on_topic_removed(context, name)
    await initialize_partitions(context)


async def _read_topic(context: ControllerContext, name: str) -> TopicMetadata | None:
    try:
        return await read_topic(context.deps.session, name, watch=True)
    except znodes.ZnodeError as error:
        log.error("left alone: %s", error)
        return None


async def _on_new_topic(context: ControllerContext, topic: TopicMetadata) -> None:
    if topic.info.topic_id is None:
        await assign_topic_id(context, topic.name, topic.info, topic.version)
        again = await _read_topic(context, topic.name)
        if again is None or again.info.topic_id is None:
            return
        topic = again
    log.info("topic %s is new, with %d partitions", topic.name, len(topic.info.partitions))
    context.topic_versions[topic.name] = topic.version
    context.watched_topics.add(topic.name)
    if topic.config_version >= 0:
        context.config_nodes[f"{znodes.CONFIG_TOPICS}/{topic.name}"] = ConfigNode(
            topic.config_version
        )
    context.replay(topic.records)


async def assign_topic_id(
    context: ControllerContext, name: str, info: znodes.TopicAssignment, version: int
) -> None:
    """Gives a topic that an old tool created its id (KIP-516)."""
    named = znodes.TopicAssignment(info.partitions, context.deps.clock.new_uuid())
    data = znodes.encode_topic(named)
    await context.write((SetData(znodes.topic_path(name), data, version),))


async def on_partition_modification(context: ControllerContext, name: str) -> None:
    """`/brokers/topics/<t>`: partitions may have been added (C-NTC-06..08)."""
    found = await get_or_none(context.deps.session, znodes.topic_path(name), watch=True)
    context.watched_topics.add(name)
    topic = context.image.topics.get(name)
    if found is None or topic is None or found[1].version == context.topic_versions.get(name):
        return
    try:
        info = znodes.decode_topic(name, found[0])
    except znodes.ZnodeError as error:
        log.error("left alone: %s", error)
        return
    context.topic_versions[name] = found[1].version
    if info.topic_id != topic.topic_id:
        log.error("left alone: %s has another topic id than before", znodes.topic_path(name))
        return
    context.replay(
        partition_record(info, index, None, UNINITIALIZED_EPOCH)
        for index in range(len(topic.partitions), len(info.partitions))
    )


def _on_topic_removed(context: ControllerContext, name: str) -> None:
    """The topic's node was removed by hand: the topic is gone, its logs stay."""
    log.warning("topic %s was removed from ZooKeeper by hand", name)
    del context.topic_versions[name]
    context.watched_topics.discard(name)
    topic = context.image.topics.get(name) or context.deletions.topics.pop(name, None)
    if topic is None:
        return
    keys = [(name, one.index, broker) for one in topic.partitions for broker in one.replicas]
    context.replicas.forget(keys)
    context.partitions.forget([(name, one.index) for one in topic.partitions])
    if name in context.image.topics:
        context.replay((RemoveTopicRecord(topic_id=topic.topic_id),))
        for queue in context.request_queues.all():
            queue.pending.deleted[topic.topic_id] = topic
        context.request_queues.send_pending()
