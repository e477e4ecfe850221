"""Stray logs: not in the metadata, so renamed to ``<topic>-<partition>.<32 hex>-stray`` and kept.

Finds and describes the strays of a log directory. The broker never removes a stray by itself: a
topic that the cluster's metadata do not know may have been deleted, or the metadata may be lost.
Only a person can decide that.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.disk.port import Disk
from broker.log.errors import LogError
from broker.log.files import LOG, base_offset_of, parse_directory
from broker.log.log_dir_files import encode_uuid
from broker.log.partition_metadata import TopicIdInDoubt, read_topic_id

SUFFIX = "-stray"


@dataclass(frozen=True, slots=True)
class Stray:
    """A stray log. ``topic_id`` is empty if it cannot be read."""

    path: str
    topic: str
    partition: int
    topic_id: str
    first_offset: int
    size_bytes: int
    kept_since_ms: int


def paths(disk: Disk, directory: str) -> list[str]:
    """The strays in a log directory, each of them a directory itself."""
    return [
        f"{directory}/{name}" for name in disk.listdir(directory) if _parse_name(name) is not None
    ]


def describe(disk: Disk, path: str) -> Stray:
    """Reads name, topic id, first offset and size of a stray."""
    topic, index = _parse_name(path.rpartition("/")[2]) or ("", -1)
    names = disk.listdir(path)
    bases = [b for n in names if n.endswith(LOG) and (b := base_offset_of(n)) is not None]
    return Stray(
        path=path,
        topic=topic,
        partition=index,
        topic_id=_topic_id(disk, path),
        first_offset=min(bases, default=0),
        size_bytes=size_bytes(disk, path),
        kept_since_ms=disk.modified_ms(path),
    )


def size_bytes(disk: Disk, path: str) -> int:
    """What a stray occupies."""
    return sum(disk.size_of(f"{path}/{name}") for name in disk.listdir(path))


def _topic_id(disk: Disk, path: str) -> str:
    try:
        found = read_topic_id(disk, path)
    except TopicIdInDoubt:
        return ""
    return encode_uuid(found) if found else ""


def _parse_name(name: str) -> tuple[str, int] | None:
    """Topic and partition in a stray's name; the topic's may have been cut to fit."""
    if not name.endswith(SUFFIX):
        return None
    try:
        return parse_directory(name.removesuffix(SUFFIX).rpartition(".")[0])
    except LogError:
        return None
