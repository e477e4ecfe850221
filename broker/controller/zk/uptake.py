"""What the active controller takes up: brokers, and whatever tools and people write in znodes.

In: a term, and the node that changed. Out: transactions of the term. Never: an own idea of the
metadata; each function reads its node again (setting the watch anew) and brings the term to it.

One function per watched node (chapter 5, section 10). Each may be called at any time, also when
nothing changed: a new controller calls all of them (C-FO-08).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from broker.controller.decisions import brokers as broker_decisions
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.elections import elect_leaders
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
    partitions_without_leader,
)
from broker.controller.decisions.partition_change import Election
from broker.controller.decisions.reassignment import Move, alter_reassignments
from broker.controller.zk import znodes
from broker.controller.zk.configs import read_noted
from broker.controller.zk.load import (
    UNBORN_EPOCH,
    ConfigNode,
    TopicState,
    children_or_none,
    get_or_none,
    in_chunks,
    partition_record,
    read_broker,
    read_topic,
)
from broker.controller.zk.member import NoteFound
from broker.controller.zk.port import (
    Delete,
    Operation,
    SetData,
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.term import Term
from broker.metadata.image import MetadataImage, ResourceType, TopicImage
from bus.protocol.generated.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)

log = logging.getLogger("broker.controller.zk")

Found = TypeVar("Found")

MAX_DELETES = 300
"""Nodes of a deleted topic that go in one `multi`."""

# -- brokers ------------------------------------------------------------------------------


async def take_brokers(term: Term) -> None:
    """`/brokers/ids`: who came, who left, who came back between two looks (C-BRK-01..12)."""
    session = term.office.session
    names = await session.children(znodes.BROKER_IDS, watch=True)
    faults: list[str] = []
    ids = sorted(int(name) for name in names if name.isdigit())
    found = await in_chunks(ids, lambda broker_id: read_broker(session, broker_id, faults))
    here = {record.broker_id: record for record in found if record is not None}
    for fault in faults:
        log.error("left alone: %s", fault)
    for broker_id, broker in sorted(term.image.brokers.items()):
        record = here.get(broker_id)
        if record is None or record.broker_epoch != broker.epoch:
            await _broker_left(term, broker_id)
    for broker_id, record in sorted(here.items()):
        if broker_id not in term.image.brokers:
            await _broker_came(term, record)
        else:
            _take_endpoints(term, record)


async def _broker_left(term: Term, broker_id: int) -> None:
    log.info("broker %d has gone", broker_id)
    term.deletions.broker_left(broker_id)

    def decide(image: MetadataImage) -> Decision[None]:
        broker = image.brokers.get(broker_id)
        if broker is None:
            return Decision((), None)
        pairs = partitions_in_isr(image, broker_id)
        changes = leader_and_isr_changes(image, term.office.rules(), pairs, remove=broker_id)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        return Decision((*changes, gone), None)

    await term.transact(decide)


async def _broker_came(term: Term, record: RegisterBrokerRecord) -> None:
    log.info("broker %d is here, epoch %d", record.broker_id, record.broker_epoch)
    term.replay((record,))
    await bear_partitions(term)
    await elect_where_nobody_leads(term)
    term.tracking.tell_broker(term.image, record.broker_id)
    term.stop_replicas(term.deletions.broker_came(record.broker_id, term.image.brokers))
    term.lines.wake()


def _take_endpoints(term: Term, record: RegisterBrokerRecord) -> None:
    """Listeners may change while a broker runs; its epoch stays."""
    held = term.image.brokers[record.broker_id]
    ends = tuple((e.name, e.host, e.port) for e in record.end_points)
    if ends != tuple((e.name, e.host, e.port) for e in held.endpoints) or held.rack != record.rack:
        record.in_controlled_shutdown = held.in_controlled_shutdown
        term.replay((record,))


async def remove_the_dead(term: Term) -> None:
    """A new controller finds brokers in in-sync sets that left before it was elected."""
    counted = {one for _, partition in term.image.partitions() for one in partition.isr}
    for broker_id in sorted(counted - set(term.image.brokers)):

        def decide(image: MetadataImage, gone: int = broker_id) -> Decision[None]:
            pairs = [
                pair for pair in partitions_in_isr(image, gone)
                if pair[1].isr != (gone,) or pair[1].leader == gone
            ]  # fmt: skip
            rules = term.office.rules()
            return Decision(
                tuple(leader_and_isr_changes(image, rules, pairs, remove=gone)), None
            )

        await term.transact(decide)


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


async def elect_where_nobody_leads(term: Term) -> None:
    """Partitions without a leader get one if a replica that may lead is here (C-PSM-31)."""

    def decide(image: MetadataImage) -> Decision[None]:
        pairs = [pair for pair in partitions_without_leader(image)
                 if pair[1].partition_epoch != UNBORN_EPOCH]
        return Decision(tuple(leader_and_isr_changes(image, term.office.rules(), pairs)), None)

    await term.transact(decide)


async def leave_orderly(
    term: Term, broker_id: int, broker_epoch: int
) -> tuple[bool, list[tuple[str, int]]]:
    """ControlledShutdown: whether the broker is known under this epoch, and the partitions that
    it still leads because nobody else may (C-BRK-13)."""
    broker = term.image.brokers.get(broker_id)
    if broker is None or broker_epoch not in (-1, broker.epoch):
        return False, []
    await term.transact(
        lambda image: broker_decisions.enter_controlled_shutdown(
            image, term.office.rules(), broker_id, broker.epoch
        )
    )
    return True, [
        (topic.name, partition.index)
        for topic, partition in term.image.partitions()
        if partition.leader == broker_id and len(partition.replicas) > 1
    ]


# -- configurations -------------------------------------------------------------------------


async def take_notes(term: Term, notes: Sequence[NoteFound]) -> None:
    """`/config/changes` and the notes of the authorizer: configurations, quotas and rules that
    somebody wrote by hand; the versions that later writes are conditional on."""
    for folder, data in notes:
        try:
            noted = await read_noted(term.office.session, folder, data, term.image)
        except znodes.ZnodeError:
            continue  # the member has said so
        for path, node in noted.configs.items():
            if node is None:
                term.config_nodes.pop(path, None)
            else:
                term.config_nodes[path] = node
        for path, version in noted.acls.items():
            term.note_acl(path, version)
        term.replay(one for one in noted.records if not _is_of_no_topic(term.image, one))


def _is_of_no_topic(image: MetadataImage, record: object) -> bool:
    """A configuration whose topic is not there (yet, or any more) comes with the topic."""
    return (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceType.TOPIC
        and record.resource_name not in image.topics
    )


# -- topics -------------------------------------------------------------------------------


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


async def bear_partitions(term: Term) -> None:
    """Partitions that have an assignment but no state come into being (C-NTC-02..05)."""
    unborn = _unborn(term.image)
    if not unborn:
        return
    for name, index in unborn:
        await _ensure(term, f"{znodes.topic_path(name)}/partitions")
        await _ensure(term, znodes.partition_path(name, index))

    def decide(image: MetadataImage) -> Decision[None]:
        return Decision(
            tuple(
                _born(image, image.topics[name], index)
                for name, index in _unborn(image)
                if (name, index) in unborn
            ),
            None,
        )

    await term.transact(decide, assigned=True)


def _unborn(image: MetadataImage) -> dict[tuple[str, int], None]:
    return {
        (topic.name, partition.index): None
        for topic, partition in image.partitions()
        if partition.partition_epoch == UNBORN_EPOCH
        and any(image.is_active(replica) for replica in partition.replicas)
    }


def _born(image: MetadataImage, topic: TopicImage, index: int) -> PartitionRecord:
    """Leader is the first live replica, in sync are all live ones (C-PSM-15)."""
    partition = topic.partitions[index]
    alive = [replica for replica in partition.replicas if image.is_active(replica)]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=alive,
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=alive[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[],
    )


async def _ensure(term: Term, path: str) -> None:
    try:
        await term.office.session.create(path)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise


# -- deletion -----------------------------------------------------------------------------


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


# -- what tools ask for -------------------------------------------------------------------


async def take_reassignment(term: Term) -> None:
    """`/admin/reassign_partitions`: begin what is asked and not begun (C-RA-01..09)."""
    wanted = await _read_tool(term, znodes.REASSIGN, znodes.decode_reassignment)
    if wanted is None:
        term.asked_moves.clear()
        return
    moves = [
        Move(topic, index, replicas)
        for (topic, index), replicas in wanted.items()
        if (topic, index) not in term.asked_moves
    ]
    if moves:
        results = await term.transact(
            lambda image: alter_reassignments(image, term.office.rules(), moves)
        )
        for result in results:
            if result.error:
                log.error("no reassignment of %s-%d: %s", result.topic, result.index,
                          result.message or result.error.name)
    term.asked_moves = dict.fromkeys(wanted)
    await finish_reassignments(term, wanted)


async def finish_reassignments(
    term: Term, wanted: dict[tuple[str, int], tuple[int, ...]] | None = None
) -> None:
    """What is done, or failed, leaves the node; an empty node is removed (G-07)."""
    if not term.asked_moves:
        return
    open_moves = {one: None for one in term.asked_moves if _is_moving(term.image, *one)}
    if wanted is None:
        if len(open_moves) == len(term.asked_moves):
            return
        wanted = await _read_tool(term, znodes.REASSIGN, znodes.decode_reassignment) or {}
    term.asked_moves = open_moves
    left = {one: replicas for one, replicas in wanted.items() if one in open_moves}
    if not left:
        await term.write((Delete(znodes.REASSIGN),))
    elif len(left) < len(wanted):
        await term.write((SetData(znodes.REASSIGN, znodes.encode_reassignment(left)),))


def _is_moving(image: MetadataImage, topic: str, index: int) -> bool:
    held = image.topics.get(topic)
    return (
        held is not None and index < len(held.partitions) and held.partitions[index].is_reassigning
    )


async def take_preferred_election(term: Term) -> None:
    """`/admin/preferred_replica_election`: elect, then remove the node, whatever came of it
    (C-PRE-01..07, G-08)."""
    wanted = await _read_tool(term, znodes.PREFERRED_ELECTION, znodes.decode_preferred_election)
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


async def _read_tool(
    term: Term, path: str, decode: Callable[[bytes], Found]
) -> Found | None:
    """What a tool wrote, None if there is no node; the node's creation is watched."""
    if await term.office.session.exists(path, watch=True) is None:
        return None
    found = await get_or_none(term.office.session, path, watch=True)
    if found is None:
        return None
    try:
        return decode(found[0])
    except znodes.ZnodeError as error:
        log.error("refused and removed: %s", error)
        await term.write((Delete(path),))
        return None


async def take_isr_changes(term: Term) -> None:
    """`/isr_change_notification`: leaders of before 2.7 wrote state nodes themselves and say so
    here; everything is read anew and the notes are removed."""
    names = await children_or_none(term.office.session, znodes.ISR_CHANGES, watch=True)
    if not names:
        return
    await term.reload()
    await term.write(Delete(f"{znodes.ISR_CHANGES}/{name}") for name in names)


async def take_failed_directories(term: Term) -> None:
    """`/log_dir_event_notification`: a broker that lost a directory is told of all its replicas
    again; those that it answers KAFKA_STORAGE_ERROR for are lost (`replicas_lost`)."""
    folder = znodes.LOG_DIR_EVENTS
    names = await children_or_none(term.office.session, folder, watch=True)
    for name in names:
        found = await get_or_none(term.office.session, f"{folder}/{name}")
        try:
            if found is not None:
                broker_id = znodes.decode_failed_directory(f"{folder}/{name}", found[0])
                term.tracking.tell_broker(term.image, broker_id)
        except znodes.ZnodeError as error:
            log.error("removed: %s", error)
    term.lines.wake()
    if names:
        await term.write(Delete(f"{folder}/{name}") for name in names)


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
