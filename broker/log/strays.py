"""Logs that nobody knows (any more): renamed to ``<topic>-<partition>.<32 hex>-stray`` and kept.

In: a log directory. Out: what of it is a stray, and its removal when somebody asks for it. Never: a
stray removed by the broker itself. That the cluster's metadata do not know a topic may mean that
the topic is gone, or that the metadata are: only a person can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.disk.port import Disk
from broker.log.directories import encode_uuid
from broker.log.errors import LogError
from broker.log.files import LOG, base_offset_of, parse_directory
from broker.log.partition_metadata import TopicIdInDoubt, read_topic_id

SUFFIX = "-stray"


@dataclass(frozen=True, slots=True)
class Stray:
    """One that is kept. ``topic_id`` is empty where it cannot be had."""

    path: str
    topic: str
    partition: int
    topic_id: str
    first_offset: int
    size_bytes: int
    kept_since_ms: int


def paths(disk: Disk, directory: str) -> list[str]:
    """The strays in a log directory, each of them a directory itself."""
    return [f"{directory}/{name}" for name in disk.listdir(directory) if _named(name) is not None]


def describe(disk: Disk, path: str) -> Stray:
    """What a stray is."""
    topic, index = _named(path.rpartition("/")[2]) or ("", -1)
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


def _named(name: str) -> tuple[str, int] | None:
    """Topic and partition in a stray's name; the topic's may have been cut to fit."""
    if not name.endswith(SUFFIX):
        return None
    try:
        return parse_directory(name.removesuffix(SUFFIX).rpartition(".")[0])
    except LogError:
        return None
