"""The port for files.

In: nothing. Out: ``Disk`` and ``File``, the only way a package of the broker uses the file system,
and the typed errors they raise. Never: a path joined, opened or listed anywhere else; a simulated
disk (lost writes, partial writes, a full disk) must be able to stand behind this port.

Paths are plain ``/``-separated strings. Every method may raise ``DiskError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Buffer = bytes | bytearray | memoryview

METADATA_WORKER = "metadata"
"""The queue of Raft's flushes and votes. No log directory can have this name: those are absolute,
or relative with a slash, or at worst share a thread with it."""


class DiskError(Exception):
    """The file system refused. ``errno`` is the system's number, 0 if it gave none."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class DiskFull(DiskError):
    """No room (or quota) left. The last write may be partial; earlier writes are complete."""


class PathMissing(DiskError):
    """The path does not exist."""


class DirectoryLocked(DiskError):
    """Another process holds the lock of the directory."""


class WouldBlock(Exception):
    """What was to be read is not in memory: reading it would wait for the device."""

    def __init__(self, file: File, position: int, size: int) -> None:
        super().__init__(f"{file.path} at {position}")
        self.file = file
        self.path = file.path
        self.position = position
        self.size = size


class File(Protocol):
    """One open file. Appends go to its end; reads name their position."""

    @property
    def path(self) -> str: ...

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at the end, in one system call where the system takes it whole."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``."""

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""

    def read_now(self, position: int, size: int) -> bytes | bytearray:
        """As ``read`` where that need not wait for the device; else ``WouldBlock``. A file system
        that cannot tell counts as memory. Of large reads only the two ends are looked at."""

    def pin(self) -> File:
        """Another handle of the same file, valid even if the file is renamed or this one closed."""

    def always_block(self) -> None:
        """From now on ``read_now`` reads as ``read`` does: non-blocking reads make no progress."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""

    def flush(self) -> None:
        """Force what was written to the device (fdatasync). An error, which is never ``DiskFull``,
        may have lost it."""

    def size(self) -> int:
        """The length in bytes."""

    def close(self) -> None:
        """Close the handle. Closing twice does nothing."""


class DirectoryLock(Protocol):
    """A held lock; ``release`` gives it back."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The file system of one machine."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Without ``create`` a missing file is ``PathMissing``."""

    def exists(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Names (not paths) in a directory, sorted."""

    def mkdirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; a file at ``target`` is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all in it; nothing happens if there is none."""

    def read_text(self, path: str) -> str: ...

    def replace_text_durably(self, path: str, text: str) -> None:
        """Put ``text`` at ``path`` so that after a crash either the old or the new text stands.

        Written to ``path.tmp``, flushed, renamed, directory flushed.
        """

    def flush_directory(self, path: str) -> None:
        """Force the names in a directory to the device (files made, renamed or removed in it)."""

    def size_of(self, path: str) -> int:
        """Length of a file in bytes without opening it."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in epoch milliseconds."""

    def lock(self, directory: str) -> DirectoryLock:
        """Take the ``.lock`` file of a directory or raise ``DirectoryLocked``."""

    def total_bytes(self, path: str) -> int:
        """Size of the volume below ``path``."""

    def free_bytes(self, path: str) -> int:
        """Room left for us on the volume below ``path``."""

    def boot_id(self) -> str:
        """Which start of the machine this is; empty where the system does not say.

        While it stays the same, what was written is still there, flushed or not (ADR 0032)."""

    def begin_service(self) -> None:
        """The calling thread serves requests from now on and must wait for no device: ``flush``,
        ``flush_directory`` and ``replace_text_durably`` belong on a worker.

        Under test the real disk refuses them there. Before this call (start-up) and after
        ``end_service`` (the last close) no request is served, and they are allowed."""

    def end_service(self) -> None:
        """See ``begin_service``."""

    async def run(
        self, function: Callable[..., Result], *arguments: Any, worker: str = ""
    ) -> Result:
        """Run slow file work (flush, deletion, a read of what is not in memory) off the loop.

        ``worker`` names a queue with one thread, which keeps the order of its calls: one per log
        directory (its path) and ``METADATA_WORKER`` for Raft, so that a stalled device delays
        no other queue. Empty: any free one of a few shared threads; no order.

        A cancelled caller does not learn of the end; a function that has begun continues."""
