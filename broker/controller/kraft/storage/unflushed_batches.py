"""What a loss of power has torn of the metadata log's end, and was never flushed: it is put aside.

Several batches may be in the page cache when the power fails; any of them may reach the device
and the ones before not, so that sound batches stand behind a hole. Above the flushed end nobody was
told of any of them. In: where the sound part ends. Out: the log without the tail; the tail in
files beside it, whose names are logged. Never: a decision whether it may be cut (`integrity`); a
byte deleted.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from broker.disk.port import Disk
from broker.log.files import LOG, base_offset_of, segment_path

log = logging.getLogger("broker.controller")

PREFIX = "unflushed-"
COPY_BYTES = 1 << 20


class UnflushedBatches(NamedTuple):
    """`base`: the segment that is torn. `position`: the byte in it where the sound part ends.
    `offset`: the first one that is missing. `fault`: what is wrong there."""

    base: int
    position: int
    offset: int
    fault: str


def put_aside(disk: Disk, directory: str, unflushed: UnflushedBatches) -> list[str]:
    """Cut the log; the files that have what stood behind. Waits for the device. A crash between the
    steps leaves the tail where it is, or in two places."""
    torn = segment_path(directory, unflushed.base, LOG)
    number = _free_number(disk, directory, unflushed)
    name = f"{_prefix(unflushed)}{number}-{torn.rpartition('/')[2]}"
    aside = [_copy(disk, torn, f"{directory}/{name}", unflushed.position)]
    for name in sorted(disk.listdir(directory)):
        base = base_offset_of(name)
        if base is not None and base > unflushed.base:
            aside.append(f"{directory}/{_prefix(unflushed)}{number}-{name}")
            disk.rename(f"{directory}/{name}", aside[-1])
    disk.flush_directory(directory)
    file = disk.open(torn)
    try:
        file.truncate(unflushed.position)
        file.flush()
    finally:
        file.close()
    log.warning(
        "the metadata log in %s ends at offset %d (%s): what followed had never been flushed, and "
        "nobody was told of it; it is put aside in %s",
        directory, unflushed.offset, unflushed.fault, ", ".join(aside),
    )  # fmt: skip
    return aside


def _copy(disk: Disk, torn: str, aside: str, position: int) -> str:
    source, target = disk.open(torn), disk.open(aside, create=True)
    try:
        size = source.size()
        while position < size:
            data = source.read(position, min(COPY_BYTES, size - position))
            target.append(data)
            position += len(data)
        target.flush()
    finally:
        source.close()
        target.close()
    return aside


def _prefix(unflushed: UnflushedBatches) -> str:
    return f"{PREFIX}{unflushed.offset}."


def _free_number(disk: Disk, directory: str, unflushed: UnflushedBatches) -> int:
    """A crash, or another loss of power at the same offset, must not mix two tails."""
    names = [name for name in disk.listdir(directory) if name.startswith(_prefix(unflushed))]
    numbers = [int(name.removeprefix(_prefix(unflushed)).partition("-")[0]) for name in names]
    return max(numbers, default=0) + 1
