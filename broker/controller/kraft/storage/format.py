"""Formats a metadata directory with the first voters of a cluster (KIP-853), and with records that
the metadata begin with.

Writes the snapshot 0-0 that names the voters, as `kafka-storage format --initial-controllers` does;
every controller of the new cluster gets the same one. A directory that contains metadata is never
written. The first records stand in `bootstrap.checkpoint` beside the directory, as Kafka's, until
the first active controller puts them into the empty log.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.raft.voters import VoterSet
from broker.controller.kraft.storage.raft_log import DIRECTORY
from broker.controller.kraft.storage.records import decode_batches
from broker.controller.kraft.storage.snapshots import (
    MetadataSnapshots,
    finish_file,
    read_whole,
    snapshot_batches,
)
from broker.disk.port import Disk

BOOTSTRAP = OffsetAndEpoch(0, 0)
FIRST_RECORDS = "bootstrap.checkpoint"


class AlreadyFormatted(Exception):
    """The directory contains metadata; the text names the remedy."""


def write_initial_voters(disk: Disk, root: str, voters: VoterSet, now_ms: int) -> None:
    """Names the first voters in the metadata directory below `root`."""
    directory = f"{root}/{DIRECTORY}"
    disk.mkdirs(directory)
    if disk.listdir(directory):
        raise AlreadyFormatted(
            f"{directory} is not empty: it holds the metadata of a cluster already; name another "
            "metadata.log.dir, or move the directory away; nothing was changed"
        )
    MetadataSnapshots(disk, directory).write(BOOTSTRAP, (), voters, now_ms)


def write_first_records(disk: Disk, root: str, records: Sequence[object], now_ms: int) -> None:
    """What an empty cluster begins with, for `read_first_records`."""
    path = f"{root}/{FIRST_RECORDS}"
    file = disk.open(f"{path}.part", create=True)
    try:
        file.truncate(0)
        for batch in snapshot_batches([(one, 0) for one in records], None, now_ms, 0):
            file.append(batch)
    finally:
        file.close()
    finish_file(disk, root, path)


def read_first_records(disk: Disk, root: str) -> tuple[object, ...]:
    """None where none were written. Raises MetadataSnapshotDamaged."""
    path = f"{root}/{FIRST_RECORDS}"
    if not disk.exists(path):
        return ()
    data = read_whole(disk, path, "format the directories again")
    return tuple(record for batch in decode_batches(data) for record in batch.records)
