"""Offline migration from ZooKeeper to KRaft: the znodes become the first metadata snapshot.

In: a stopped cluster's ensemble, the KRaft configuration of one node. Out: the snapshot in that
node's metadata directory, and log directories that belong to a KRaft node. Never: a change of a
broker's log, of a znode other than `/migration`, or of existing metadata.

Topic ids, assignments, in-sync sets, leader epochs, configurations, quotas, credentials, ACLs,
delegation tokens and the producer ids are migrated, so brokers start on the logs they have. No
partition has a leader in the snapshot: the first in-sync replica whose broker registers becomes the
leader, under the next leader epoch. Every node runs this on the same znodes and so gets the same
snapshot, byte for byte; that is what makes it committed. `/migration` then keeps brokers in
ZooKeeper mode from starting: two clusters must not write the same logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.decisions.features import bootstrap
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.storage.format import AlreadyFormatted
from broker.controller.kraft.storage.raft_log import DIRECTORY
from broker.controller.kraft.storage.snapshots import MetadataSnapshots
from broker.controller.zk import znodes
from broker.controller.zk.acl_and_quota_reader import read_acls_and_quotas
from broker.controller.zk.port import (
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.state_reader import (
    NO_LEADER,
    UNINITIALIZED_EPOCH,
    ZooKeeperMetadata,
    read_cluster,
)
from broker.disk.port import Disk
from broker.log.log_dir_files import (
    KRAFT_VERSION,
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.image_writer import image_records
from broker.metadata.versions import record_version
from broker.server.control_plane import StartError
from broker.server.tools.first_connection import FirstConnection
from bus.protocol.generated.metadata_records import (
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)

log = logging.getLogger("broker.server")

FIRST_EPOCH = 1
"""The epoch of the snapshot; the quorum's first leader has the next one."""

TIMESTAMP_MS = 0
"""All controllers write the same bytes, at any time."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was migrated."""

    cluster_id: str
    topics: int
    partitions: int
    records: int
    path: str


async def migrate(
    config: BrokerConfig, disk: Disk, clock: Clock, session: ZooKeeperSession
) -> Migrated:
    """Write the snapshot of this controller. Raises StartError, WrongDirectory, DirectoryLocked
    and AlreadyFormatted; then nothing has been changed."""
    waiting = FirstConnection(session)
    session.start(waiting)
    try:
        await waiting.wait(clock, int(config["zookeeper.connection.timeout.ms"]))
        return await _migrate(config, disk, clock, session)
    except (ZooKeeperError, znodes.ZnodeError) as error:
        raise StartError(f"ZooKeeper's content was not carried over: {error}") from error
    finally:
        await session.close()


async def _migrate(
    config: BrokerConfig, disk: Disk, clock: Clock, session: ZooKeeperSession
) -> Migrated:
    state = await read_cluster(session)
    await read_acls_and_quotas(session, state)
    _check(state)
    image = _image(state, config)
    locks = []
    try:
        directories = tuple(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
        for directory in directories:
            disk.mkdirs(directory)
            locks.append(disk.lock(directory))
        _check_directories(config, disk, directories, state.cluster_id)
        path = _write(config, disk, image)
        _claim(config, disk, clock, directories, state.cluster_id)
        await _seal(session, config.node_id, len(list(image_records(image))))
    finally:
        for lock in locks:
            lock.release()
    return Migrated(
        cluster_id=state.cluster_id,
        topics=len(image.topics),
        partitions=sum(len(topic.partitions) for topic in image.topics.values()),
        records=len(list(image_records(image))),
        path=path,
    )


def _check(state: ZooKeeperMetadata) -> None:
    """Raises StartError for what must be fixed first: nothing is migrated partially."""
    if not state.cluster_id:
        raise StartError(
            f"{znodes.CLUSTER_ID} is missing: this is not the ensemble of a cluster; check the "
            "address and its chroot"
        )
    alive = [one.broker_id for one in state.records if isinstance(one, RegisterBrokerRecord)]
    if alive:
        raise StartError(
            f"brokers {', '.join(map(str, alive))} are registered in ZooKeeper; stop the whole "
            "cluster first (SIGTERM, so that every replica is complete)"
        )
    if state.faults:
        raise StartError(f"{state.faults[0]}; repair or remove it first")
    if state.topics_without_id:
        raise StartError(
            f"topic {min(state.topics_without_id)} has no topic id yet; start the cluster again in "
            "ZooKeeper mode, its controller gives ids"
        )


def _image(state: ZooKeeperMetadata, config: BrokerConfig) -> MetadataImage:
    """The cluster as KRaft will find it: no broker, so no leader. Topics marked for deletion are
    left out; their logs are removed as strays when the brokers start."""
    delta = MetadataDelta(MetadataImage(cluster_id=state.cluster_id))
    for record in bootstrap(MetadataImage(), PartitionPolicy.of(config)).records:
        delta.replay(record)
    for record in state.records:
        delta.replay(_migrated(record))
    image = delta.apply(0, FIRST_EPOCH).image
    gone = MetadataDelta(image)
    for name in state.deleting:
        if name in image.topics:
            gone.replay(_removal(image, name))
    return gone.apply(0, FIRST_EPOCH).image


def _removal(image: MetadataImage, name: str) -> object:
    return RemoveTopicRecord(topic_id=image.topics[name].topic_id)


def _migrated(record: object) -> object:
    """A partition without its leader; one that was never initialized is new, with all in sync."""
    if not isinstance(record, PartitionRecord):
        return record
    record.leader = NO_LEADER
    record.directories = [bytes(16)] * len(record.replicas)
    if record.partition_epoch == UNINITIALIZED_EPOCH:
        record.isr = list(record.replicas)
        record.leader_epoch = record.partition_epoch = 0
    return record


def _check_directories(
    config: BrokerConfig, disk: Disk, directories: tuple[str, ...], cluster_id: str
) -> None:
    for directory in directories:
        found = read_meta_properties(disk, directory)
        if found is not None:
            check_meta_properties(directory, found, cluster_id, config.node_id)


def _write(config: BrokerConfig, disk: Disk, image: MetadataImage) -> str:
    directory = f"{config.metadata_log_dir}/{DIRECTORY}"
    disk.mkdirs(directory)
    if disk.listdir(directory):
        raise AlreadyFormatted(
            f"{directory} is not empty: it holds the metadata of a cluster already; name another "
            "metadata.log.dir, or move the directory away; nothing was changed"
        )
    rows = list(_versioned(image))
    snapshot = OffsetAndEpoch(len(rows), FIRST_EPOCH)
    MetadataSnapshots(disk, directory).write(snapshot, rows, None, TIMESTAMP_MS)
    return f"{directory}/{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"


def _versioned(image: MetadataImage) -> Iterator[tuple[Any, int]]:
    for record in image_records(image):
        yield record, record_version(type(record).__name__, image.metadata_version)


def _claim(
    config: BrokerConfig,
    disk: Disk,
    clock: Clock,
    directories: tuple[str, ...],
    cluster_id: str,
) -> None:
    """Write the identity of a controller's new directories; those of a broker already name their
    cluster, and no longer belong to ZooKeeper mode."""
    for directory in directories:
        found = read_meta_properties(disk, directory)
        if found is None or found.version != KRAFT_VERSION:
            directory_id = (found.directory_id if found else b"") or clock.new_uuid()
            write_meta_properties(
                disk, directory, MetaProperties(cluster_id, config.node_id, directory_id)
            )


async def _seal(session: ZooKeeperSession, controller_id: int, records: int) -> None:
    data = znodes.dump({
        "version": 0, "kraft_controller_id": controller_id, "kraft_metadata_offset": records,
        "kraft_controller_epoch": FIRST_EPOCH, "kraft_metadata_epoch": FIRST_EPOCH,
    })  # fmt: skip
    try:
        await session.create(znodes.MIGRATION, data)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise
