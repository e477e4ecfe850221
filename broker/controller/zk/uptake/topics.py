"""`/brokers/topics` and each topic below it: what was made, grown or removed by hand.

In: a term. Out: records that stand in ZooKeeper already; a topic id for a topic without one. Never:
a log deleted, nor a topic's node that makes no sense changed.
"""

from __future__ import annotations

import logging

from broker.controller.zk import znodes
from broker.controller.zk.load import (
    UNBORN_EPOCH,
    TopicState,
    get_or_none,
    in_chunks,
    partition_record,
    read_topic,
)
from broker.controller.zk.port import (
    SetData,
)
from broker.controller.zk.term import Term
from broker.controller.zk.uptake.partitions import bear_partitions
from broker.controller.zk.znodes import ConfigNode
from bus.protocol.generated.metadata_records import (
    RemoveTopicRecord,
)

log = logging.getLogger("broker.controller.zk")


async def take_topics(term: Term) -> None:
    """`/brokers/topics`: topics that are new or gone; each new one is watched from now on."""
    session = term.office.session
    names = await session.children(znodes.TOPICS, watch=True)
    known = term.topic_versions
    for topic in await in_chunks(
        [name for name in names if name not in known],
        lambda name: _read_topic(term, name),
    ):
        if topic is not None:
            await _take_new_topic(term, topic)
    await in_chunks(
        [name for name in names if name in known and name not in term.watched_topics],
        lambda name: take_topic(term, name),
    )
    for name in sorted(set(known) - set(names)):
        _forget_topic(term, name)
    await bear_partitions(term)


async def _read_topic(term: Term, name: str) -> TopicState | None:
    try:
        return await read_topic(term.office.session, name, watch=True)
    except znodes.ZnodeError as error:
        log.error("left alone: %s", error)
        return None


async def _take_new_topic(term: Term, topic: TopicState) -> None:
    if topic.info.topic_id is None:
        await name_topic(term, topic.name, topic.info, topic.version)
        again = await _read_topic(term, topic.name)
        if again is None or again.info.topic_id is None:
            return
        topic = again
    log.info("topic %s is new, with %d partitions", topic.name, len(topic.info.partitions))
    term.topic_versions[topic.name] = topic.version
    term.watched_topics.add(topic.name)
    if topic.config_version >= 0:
        term.config_nodes[f"{znodes.CONFIG_TOPICS}/{topic.name}"] = ConfigNode(
            topic.config_version
        )
    term.replay(topic.records)


async def name_topic(term: Term, name: str, info: znodes.TopicInfo, version: int) -> None:
    """Give a topic that an old tool made its id (KIP-516)."""
    named = znodes.TopicInfo(info.partitions, term.office.clock.new_uuid())
    data = znodes.encode_topic(named)
    await term.write((SetData(znodes.topic_path(name), data, version),))


async def take_topic(term: Term, name: str) -> None:
    """`/brokers/topics/<t>`: partitions may have been added (C-NTC-06..08)."""
    found = await get_or_none(term.office.session, znodes.topic_path(name), watch=True)
    term.watched_topics.add(name)
    topic = term.image.topics.get(name)
    if found is None or topic is None or found[1].version == term.topic_versions.get(name):
        return
    try:
        info = znodes.decode_topic(name, found[0])
    except znodes.ZnodeError as error:
        log.error("left alone: %s", error)
        return
    term.topic_versions[name] = found[1].version
    if info.topic_id != topic.topic_id:
        log.error("left alone: %s has another topic id than before", znodes.topic_path(name))
        return
    term.replay(
        partition_record(info, index, None, UNBORN_EPOCH)
        for index in range(len(topic.partitions), len(info.partitions))
    )


def _forget_topic(term: Term, name: str) -> None:
    """Somebody removed the topic's node by hand: it is no topic any more, its logs stay."""
    log.warning("topic %s was removed from ZooKeeper by hand", name)
    del term.topic_versions[name]
    term.watched_topics.discard(name)
    topic = term.image.topics.get(name) or term.deletions.topics.pop(name, None)
    if topic is None:
        return
    keys = [(name, one.index, broker) for one in topic.partitions for broker in one.replicas]
    term.replicas.forget(keys)
    term.partitions.forget([(name, one.index) for one in topic.partitions])
    if name in term.image.topics:
        term.replay((RemoveTopicRecord(topic_id=topic.topic_id),))
        for line in term.lines.all():
            line.due.deleted[topic.topic_id] = topic
        term.lines.wake()
