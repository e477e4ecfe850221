"""Kafka's text checkpoints: a version line, a count line, one line per entry.

A file is always replaced as a whole.

A checkpoint that cannot be parsed is logged and treated as empty: every reader has a
safe meaning for "nothing known" (recover from the start, watermark at the log's start).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from broker.disk.port import Disk
from broker.log.checked import read_copy, write_copy, write_copy_durably

log = logging.getLogger("broker.log")

VERSION = 0
TopicPartition = tuple[str, int]


def _text(lines: Iterable[str]) -> str:
    body = list(lines)
    return "\n".join([str(VERSION), str(len(body)), *body, ""])


def read_lines(disk: Disk, path: str) -> list[list[str]]:
    """The fields of every entry; empty if the file is missing or cannot be parsed."""
    return _fields(path, disk.read_text(path)) if disk.exists(path) else []


def _fields(path: str, text: str) -> list[list[str]]:
    lines = text.splitlines()
    try:
        if int(lines[0]) != VERSION or int(lines[1]) != len(lines) - 2:
            raise ValueError(f"version {lines[0]}, {lines[1]} entries, {len(lines) - 2} lines")
    except (ValueError, IndexError) as error:
        log.warning("checkpoint %s is damaged and treated as empty: %s", path, error)
        return []
    return [line.split(" ") for line in lines[2:]]


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset per partition, sorted so that equal states give equal files, and the copy
    that carries a checksum."""
    text = _text(f"{t} {p} {offset}" for (t, p), offset in sorted(offsets.items()))
    write_copy_durably(disk, path, text)
    disk.replace_text_durably(path, text)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offset of each partition in the checkpoint."""
    return _offsets(path, read_lines(disk, path))


def read_smaller_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The smaller offset of each partition in the checkpoint and its copy, if that is valid; the
    copy stands in for a checkpoint that is missing or unreadable.

    They differ if one is damaged, or after a crash between the two, or where Apache Kafka has
    written the checkpoint since. Too small an offset makes deleted records visible again, too
    large a one deletes records.
    """
    offsets, copy = read_offsets(disk, path), read_copy(disk, path)
    if copy is None:
        return offsets
    verified = _offsets(path, _fields(path, copy))
    if offsets == verified:
        return offsets
    log.warning("checkpoint %s and its copy differ; the smaller offsets count", path)
    return (
        {key: min(o, verified.get(key, 0)) for key, o in offsets.items()} if offsets else verified
    )


def _offsets(path: str, lines: Iterable[list[str]]) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for fields in lines:
        try:
            topic, index, offset = fields
            offsets[topic, int(index)] = int(offset)
        except ValueError:
            log.warning("checkpoint %s: line %s is damaged and left out", path, " ".join(fields))
    return offsets


def write_epochs(disk: Disk, path: str, entries: Iterable[tuple[int, int]]) -> None:
    """Write (leader epoch, start offset) pairs, and the copy that carries a checksum."""
    text = _text(f"{epoch} {start}" for epoch, start in entries)
    write_copy(disk, path, text)
    disk.replace_text_durably(path, text)


def read_epochs(disk: Disk, path: str) -> tuple[list[tuple[int, int]], bool]:
    """The (leader epoch, start offset) pairs in the file, in its order, and whether they
    are trusted: the file is whole, and its copy, if that is valid, says the same.

    They differ too after a crash between the two, or where Apache Kafka has written the file since.
    """
    if not disk.exists(path):
        return [], False
    text = disk.read_text(path)
    entries = _epochs(path, _fields(path, text))
    is_whole = text == _text(f"{epoch} {start}" for epoch, start in entries)
    return entries, is_whole and read_copy(disk, path) in (None, text)


def _epochs(path: str, lines: Iterable[list[str]]) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for fields in lines:
        try:
            epoch, start = map(int, fields)
        except ValueError:
            log.warning("checkpoint %s: line %s is damaged and left out", path, " ".join(fields))
            continue
        entries.append((epoch, start))
    return entries
