"""``partition.metadata``: which topic the directory of a partition belongs to.

Reads the topic id of a partition's directory, or raises `TopicIdInDoubt`. It never guesses: a log
with another id than the metadata's is renamed as a stray, and one flipped bit must not cause that.

Beside Kafka's file stands a copy with a checksum (`checked`). Directories of earlier versions and
of Apache Kafka have none; they get it when the cluster's metadata confirm the id.
"""

from __future__ import annotations

import logging

from broker.config.properties import read_properties
from broker.disk.port import Disk
from broker.log.checked import SUFFIX, read_copy, with_checksum, write_text
from broker.log.log_dir_files import decode_uuid, encode_uuid, flush_file

log = logging.getLogger("broker.log")

PARTITION_METADATA = "partition.metadata"


class TopicIdInDoubt(Exception):
    """The file and its copy name different topics. The text names the remedy."""


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """The topic id of a partition's directory; ``None`` if none can be read."""
    return read_verified_topic_id(disk, directory)[0]


def read_verified_topic_id(disk: Disk, directory: str) -> tuple[bytes | None, bool]:
    """The topic id, and whether a valid copy confirms it.

    A missing or unreadable file is recreated from its copy.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    copy = read_copy(disk, path)
    text = disk.read_text(path) if disk.exists(path) else ""
    here = _topic_id(text)
    if copy is None or text == copy:
        return here, copy is not None
    verified = _topic_id(copy)
    if here is not None and here != verified:
        raise TopicIdInDoubt(
            f"{path} and its copy {PARTITION_METADATA}{SUFFIX} name different topics; ask "
            "`databus topics describe` for the topic's id, remove the file that names another, "
            "and start again; the partition is offline until then, nothing was changed"
        )
    log.warning("%s was damaged; it is recreated from its copy", path)
    write_text(disk, path, copy)
    return verified, True


def write_topic_id(disk: Disk, directory: str, topic_id: bytes, *, is_new: bool = False) -> None:
    """Write the partition's topic id; as durable as the log's data, by its first flush.
    ``is_new``: the files are not there yet, and the copy comes with the first flush.

    Without that a topic of a thousand partitions would wait for three thousand flushes, one after
    another, and for a thousand more files.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    text = f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n"
    if not is_new:
        write_text(disk, path + SUFFIX, with_checksum(text))
    write_text(disk, path, text, is_new=is_new)


def flush_new(disk: Disk, directory: str) -> None:
    """Force a new partition's topic id and its copy, and its directory's name, to the device. The
    names in the directory are forced by the caller."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path + SUFFIX) and disk.exists(path):
        write_text(disk, path + SUFFIX, with_checksum(disk.read_text(path)), is_new=True)
    flush_file(disk, path)
    flush_file(disk, path + SUFFIX)
    disk.flush_directory(directory.rpartition("/")[0])


def _topic_id(text: str) -> bytes | None:
    found = read_properties(text)
    try:
        return decode_uuid(found["topic_id"])
    except (KeyError, ValueError):
        return None
