"""Names of a log's directory and files, and the pool of open files.

The pool keeps at most ``limit`` files of closed segments open; each active segment holds its own.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress

from broker.disk.port import Disk, DiskError, File
from broker.log.errors import LogError
from bus.errors import ErrorCode

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
REPLACES = ".replaces"

FUTURE_SUFFIX = "-future"
"""Suffix of a future log's directory: a copy that will replace the log in another directory."""

MAX_OPEN_FILES = 256
"""Open files of closed segments per broker; a consumer that lags touches two or three of them."""


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """The path of one file of a segment: twenty digits and the suffix."""
    return f"{directory}/{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The base offset in a segment's file name; ``None`` for other files."""
    digits, dot, _ = name.partition(".")
    is_number = len(digits) == 20 and digits.isascii() and digits.isdigit()
    return int(digits) if dot and is_number else None


def parse_directory(directory: str) -> tuple[str, int]:
    """Topic and partition in a log directory's name, ``topic-partition`` or the same of a future
    log, ``topic-partition.<32 hex>-future``."""
    name = directory.rsplit("/", 1)[-1]
    if name.endswith(FUTURE_SUFFIX):
        name = name.rpartition(".")[0]
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is no log directory")
    return topic, int(number)


def is_partition(name: str) -> bool:
    """Whether a log directory's entry of that name is a partition's."""
    try:
        parse_directory(name)
    except LogError:
        return False
    return True


def close_quietly(file: File) -> None:
    """Close a file that is not needed any more. A flush reports errors of its bytes, and a broken
    disk must not prevent its logs from going offline."""
    with suppress(DiskError):
        file.close()


class NonBlockingReads:
    """Within it (one call, on the loop) the pool's reads raise ``WouldBlock`` rather than wait for
    the device. One per pool, not to be nested: each fetch enters it for each partition."""

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        self.is_on = False

    def __enter__(self) -> None:
        self.is_on = True

    def __exit__(self, *_: object) -> None:
        self.is_on = False


class FilePool:
    """Open files of closed segments, the least recently used one closed first."""

    def __init__(self, disk: Disk, limit: int = MAX_OPEN_FILES) -> None:
        self._disk = disk
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()
        self.non_blocking = NonBlockingReads()

    def __len__(self) -> int:
        return len(self._open)

    def read(self, file: File, position: int, size: int) -> bytes | bytearray:
        """Read from a file of a log, one of this pool or not."""
        if self.non_blocking.is_on:
            return file.read_now(position, size)
        return file.read(position, size)

    def get(self, path: str) -> File:
        """The file at ``path``, opened if it is not. Not to be kept by the caller."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        file = self._open[path] = self._disk.open(path)
        if len(self._open) > self._limit:
            close_quietly(self._open.popitem(last=False)[1])
        return file

    def forget(self, path: str) -> None:
        """Close the file if it is open; it is about to be renamed, truncated or removed."""
        file = self._open.pop(path, None)
        if file is not None:
            close_quietly(file)

    def close(self) -> None:
        """Close all."""
        while self._open:
            close_quietly(self._open.popitem()[1])
