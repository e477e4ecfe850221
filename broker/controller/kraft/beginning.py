"""Whether the only voter may begin the metadata of a cluster: not where there have been some.

In: the directories of a node, read only but for one mark. Out: nothing, or `MetadataLogMissing`
with the remedy. Never: an empty log where others would read from it that all topics are gone.

Where there are other voters, a voter without its log fetches it from them.
"""

from __future__ import annotations

from broker.config.views import BrokerConfig
from broker.controller.kraft.places import Places
from broker.controller.kraft.voters import ReplicaKey
from broker.disk.port import Disk
from broker.log.directories import signs_of_use
from broker.log.files import LOG

DIRECTORY = "__cluster_metadata-0"
MARK = ".databus_metadata"
"""Beside ``meta.properties`` of a node that has had metadata."""


class MetadataLogMissing(Exception):
    """There was a metadata log and it is gone. The text names the remedy."""


def is_only_voter(config: BrokerConfig, places: Places, me: ReplicaKey) -> bool:
    """Whether the configuration names this node as the whole quorum."""
    if "controller" not in config["process.roles"] or places.bootstrap:
        return False
    return places.static is None or [v.key.id for v in places.static.voters] == [me.id]


def check_may_begin(disk: Disk, config: BrokerConfig, root: str) -> None:
    """Raise MetadataLogMissing if the metadata of this, the only voter, are gone."""
    if _has_metadata(disk, f"{root}/{DIRECTORY}"):
        return
    signs = _signs(disk, config, root)
    if signs:
        all_of_it = dict.fromkeys((*config.log_dirs, root))
        raise MetadataLogMissing(
            f"{root}/{DIRECTORY} is missing or empty, but this node has had metadata before "
            f"({', '.join(signs)}), and it is the only voter, so nobody else has them: without "
            "them every topic would be unknown. Remedy: put the directory back, from where it "
            "was moved to or from a backup, or name the right metadata.log.dir. Only if it is "
            f"lost for good: move all of {', '.join(all_of_it)} away and start an empty "
            "cluster; the records stay readable there with Kafka's dump tool; nothing was changed"
        )


def note_begun(disk: Disk, root: str) -> None:
    """There are metadata from now on."""
    if not disk.exists(f"{root}/{MARK}"):
        disk.replace_text_durably(f"{root}/{MARK}", "version: 0\n")


def _has_metadata(disk: Disk, directory: str) -> bool:
    """A log with anything in it, or a snapshot, is judged by those who open it (soundness)."""
    if not disk.exists(directory):
        return False
    names = disk.listdir(directory)
    return any(name.endswith(".checkpoint") for name in names) or any(
        name.endswith(LOG) and disk.size_of(f"{directory}/{name}") for name in names
    )


def _signs(disk: Disk, config: BrokerConfig, root: str) -> list[str]:
    found = [f"{root}/{MARK}"] if disk.exists(f"{root}/{MARK}") else []
    for directory in config.log_dirs:
        found += signs_of_use(disk, directory)
    return found
