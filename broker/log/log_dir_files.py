"""The files at the top of a log directory: owner, clean shutdown, boot marker.

Reads and writes ``meta.properties``, ``.kafka_cleanshutdown`` and ``.databus_life``. A
``meta.properties`` that names another cluster or node, or whose checksum disagrees, is never
overwritten: it is an error that names the remedy.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from broker.clock.port import Clock
from broker.config.properties import read_properties
from broker.disk.port import Disk, DiskError, PathMissing
from broker.log.files import is_partition

log = logging.getLogger("broker.log")

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOT_MARKER = ".databus_life"
METADATA_DIRECTORY = "__cluster_metadata-0"
UNKNOWN_BROKER_EPOCH = -1


class WrongDirectory(Exception):
    """The log directory belongs to another node or cluster, or does not say to which."""


ZOOKEEPER_VERSION = 0
"""Of ``meta.properties`` of a broker in ZooKeeper mode: it says ``broker.id``."""
KRAFT_VERSION = 1
"""Of every other node: it says ``node.id``."""
_SUM = re.compile(r"# crc32c ([0-9a-f]{8})")
_NODE_ID = {ZOOKEEPER_VERSION: "broker.id", KRAFT_VERSION: "node.id"}


class MetaProperties(NamedTuple):
    """What ``meta.properties`` says. ``directory_id`` is empty where Kafka before 3.7 wrote it."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    version: int = KRAFT_VERSION


def encode_uuid(value: bytes) -> str:
    """A UUID as Kafka prints it: base64, URL alphabet, no padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def decode_uuid(text: str) -> bytes:
    """The sixteen bytes of a printed UUID; ValueError if it is none."""
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(f"{text} is no UUID") from error
    if len(value) != 16:
        raise ValueError(f"{text} is no UUID")
    return value


def signs_of_use(disk: Disk, directory: str) -> list[str]:
    """Describes what shows that a broker has used the log directory; empty for a new one."""
    if not disk.exists(directory):
        return []
    names = disk.listdir(directory)
    partitions = sum(name != METADATA_DIRECTORY and is_partition(name) for name in names)
    found = [f"{partitions} partitions in {directory}"] if partitions else []
    return found + [
        f"{directory}/{name}" for name in (BOOT_MARKER, CLEAN_SHUTDOWN) if name in names
    ]


def new_id(clock: Clock) -> str:
    """A new id as Kafka prints it; none begins with a dash, which would look like an option."""
    while (text := encode_uuid(clock.new_uuid())).startswith("-"):
        pass
    return text


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The directory's owner; ``None`` for a new one. Raises WrongDirectory if it is unreadable."""
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    text = disk.read_text(path)
    _check_checksum(path, text)
    found = read_properties(text)
    try:
        version = int(found.get("version", KRAFT_VERSION))
        return MetaProperties(
            found["cluster.id"],
            int(found[_NODE_ID[version]]),
            decode_uuid(found["directory.id"]) if "directory.id" in found else b"",
            version,
        )
    except (KeyError, ValueError) as error:
        raise WrongDirectory(
            f"{path} is damaged ({error}); restore it from a backup, or name another log.dirs"
        ) from error


def readable_meta_properties(disk: Disk, directories: Iterable[str]) -> Iterator[MetaProperties]:
    """Of the directories that have one; a directory whose disk refuses is left out."""
    for directory in directories:
        try:
            identity = read_meta_properties(disk, directory)
        except DiskError as error:
            log.warning("%s cannot be read: %s", directory, error)
            continue
        if identity is not None:
            yield identity


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Write the directory's owner."""
    lines = {
        "cluster.id": properties.cluster_id,
        "directory.id": encode_uuid(properties.directory_id),
        _NODE_ID[properties.version]: str(properties.node_id),
        "version": str(properties.version),
    }
    body = "".join(f"{name}={value}\n" for name, value in lines.items())
    text = f"# crc32c {crc32c(body.encode()):08x}\n{body}"
    disk.replace_text_durably(f"{directory}/{META_PROPERTIES}", text)


def _check_checksum(path: str, text: str) -> None:
    """Compare with the checksum in the first line's comment, which Kafka does not write."""
    first, _, body = text.partition("\n")
    checksum = _SUM.fullmatch(first)
    if checksum is not None and int(checksum[1], 16) != crc32c(body.encode()):
        raise WrongDirectory(
            f"{path} is damaged (its lines and the checksum in its first line disagree); restore "
            "it from a backup, or compare its lines with the other log.dirs, set them right and "
            "remove the first line; nothing was changed"
        )


def check_meta_properties(
    directory: str, found: MetaProperties, cluster_id: str | None, node_id: int
) -> None:
    """Refuse the directory of another cluster or node."""
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise WrongDirectory(
            f"{directory} belongs to cluster {found.cluster_id}, not to {cluster_id}; "
            "name the right log.dirs, nothing was changed"
        )
    if found.node_id != node_id:
        raise WrongDirectory(
            f"{directory} belongs to node {found.node_id}, this is node {node_id}; "
            f"set {_NODE_ID[found.version]} or name the right log.dirs, nothing was changed"
        )


def check_version(directory: str, found: MetaProperties, version: int) -> None:
    """Refuse the directory of a broker in ZooKeeper mode to a node of KRaft: the metadata that
    describe its logs are in ZooKeeper. The other way round the cluster's id decides."""
    if found.version == ZOOKEEPER_VERSION and version == KRAFT_VERSION:
        raise WrongDirectory(
            f"{directory} belongs to broker {found.node_id} in ZooKeeper mode; carry its cluster "
            "over with `databus broker migrate`, or start it with its old configuration "
            "(zookeeper.connect); nothing was changed"
        )


def consume_clean_shutdown(disk: Disk, directory: str) -> int | None:
    """The broker epoch at the last clean stop, ``None`` if there was none; the file is removed.

    From now on the directory counts as not cleanly closed, until it is closed cleanly again.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    text = disk.read_text(path)
    disk.remove(path)
    return _broker_epoch(text)


def _broker_epoch(text: str) -> int:
    try:
        return int(json.loads(text)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH  # Kafka before 3.7 leaves the file empty


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    """Mark the directory as cleanly closed."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace_text_durably(f"{directory}/{CLEAN_SHUTDOWN}", text)


def clean_shutdown_epoch(disk: Disk, directory: str) -> int | None:
    """The broker epoch at the last clean stop, ``None`` if there was none; nothing changes."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    return _broker_epoch(disk.read_text(path)) if disk.exists(path) else None


def write_boot_marker(disk: Disk, directory: str, boot_id: str, broker_epoch: int) -> None:
    """Record the broker epoch and the machine's boot id under which the directory is in use."""
    text = json.dumps(
        {"version": 0, "bootId": boot_id, "brokerEpoch": broker_epoch}, separators=(",", ":")
    )
    disk.replace_text_durably(f"{directory}/{BOOT_MARKER}", text)


def clear_boot_marker(disk: Disk, directory: str) -> None:
    """Remove the boot marker: what this process has written must not count as complete."""
    disk.remove(f"{directory}/{BOOT_MARKER}")


def read_boot_marker(disk: Disk, directory: str, boot_id: str) -> int:
    """The broker epoch of the last process if the machine has not been restarted since, else -1.

    In that case only the process died, and everything it had written is here (ADR 0032).
    """
    path = f"{directory}/{BOOT_MARKER}"
    if not boot_id or not disk.exists(path):
        return UNKNOWN_BROKER_EPOCH
    try:
        found = json.loads(disk.read_text(path))
        return int(found["brokerEpoch"]) if found["bootId"] == boot_id else UNKNOWN_BROKER_EPOCH
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def flush_file(disk: Disk, path: str) -> None:
    """Force a file through a handle of our own; others may close theirs meanwhile."""
    try:
        file = disk.open(path)
    except PathMissing:
        return  # deleted since; its contents are not needed
    try:
        file.flush()
    finally:
        file.close()
