"""Formats a metadata directory with the first voters of a cluster (KIP-853).

Writes the snapshot 0-0 that names them, as `kafka-storage format --initial-controllers` does; every
controller of the new cluster gets the same one. A directory that contains metadata is never
written.
"""

from __future__ import annotations

from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.raft.voters import VoterSet
from broker.controller.kraft.storage.raft_log import DIRECTORY
from broker.controller.kraft.storage.snapshots import MetadataSnapshots
from broker.disk.port import Disk

BOOTSTRAP = OffsetAndEpoch(0, 0)


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
