"""Formatting a metadata directory with the first voters of a cluster (KIP-853).

In: a directory and voters. Out: the snapshot 0-0 that names them, as `kafka-storage format
--initial-controllers` writes it; every controller of the new cluster gets the same one. Never:
written into a directory that has metadata already.
"""

from __future__ import annotations

from broker.controller.kraft.messages import OffsetAndEpoch
from broker.controller.kraft.raft_log import DIRECTORY
from broker.controller.kraft.snapshots import Snapshots
from broker.controller.kraft.voters import VoterSet
from broker.disk.port import Disk

BOOTSTRAP = OffsetAndEpoch(0, 0)


class AlreadyFormatted(Exception):
    """The directory holds metadata; the text names the remedy."""


def write_initial_voters(disk: Disk, root: str, voters: VoterSet, now_ms: int) -> None:
    """Name the first voters in the metadata directory below `root`."""
    directory = f"{root}/{DIRECTORY}"
    disk.mkdirs(directory)
    if disk.listdir(directory):
        raise AlreadyFormatted(
            f"{directory} is not empty: it holds the metadata of a cluster already; name another "
            "metadata.log.dir, or move the directory away; nothing was changed"
        )
    Snapshots(disk, directory).write(BOOTSTRAP, (), voters, now_ms)
