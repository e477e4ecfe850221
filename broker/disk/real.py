"""The disk of production: plain system calls, each error turned into a typed one.

It has no buffers of its own: what a call has written is in the page cache and survives the death of
the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from broker.disk.port import (
    Buffer,
    DirectoryLocked,
    DiskError,
    DiskFull,
    PathMissing,
    Result,
    WouldBlock,
)
from broker.disk.real_guard import NO_GUARD, ServiceGuard
from broker.disk.workers import Workers

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

PROBED_FROM_BYTES = 256 << 10
"""Larger reads are probed at their ends before they are made."""

_ONE = bytearray(1)

LOCK_FILE = ".lock"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def to_disk_error(error: OSError, path: str) -> DiskError:
    """The port's error for a system error at ``path``."""
    number = error.errno or 0
    message = f"{path}: {error.strerror or error}"
    if number in _FULL:
        return DiskFull(message, number)
    if number == errno.ENOENT:
        return PathMissing(message, number)
    return DiskError(message, number)


@contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise to_disk_error(error, path) from error


class RealFile:
    """One open descriptor. Invariant: ``_fd`` is -1 once closed."""

    __slots__ = ("_fd", "_guard", "_supports_nowait", "path")

    def __init__(self, path: str, fd: int, guard: ServiceGuard = NO_GUARD) -> None:
        self.path = path
        self._fd = fd
        self._guard = guard
        self._supports_nowait = True

    def append(self, data: Buffer) -> None:
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                self._append_rest(memoryview(data)[written:])
        except OSError as error:
            raise to_disk_error(error, self.path) from error

    def _append_rest(self, rest: memoryview) -> None:
        """A short write is no error yet; the next one says why (a full disk, mostly)."""
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def write_at(self, position: int, data: Buffer) -> None:
        # O_APPEND makes pwrite append too, so the flag is taken off for the moment.
        rest = memoryview(data)
        with _typed_errors(self.path):
            flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
            try:
                while rest:
                    written = os.pwrite(self._fd, rest, position)
                    rest, position = rest[written:], position + written
            finally:
                fcntl.fcntl(self._fd, fcntl.F_SETFL, flags)

    def read(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            return data + self.read(position + len(data), size - len(data))
        except OSError as error:
            raise to_disk_error(error, self.path) from error

    def read_now(self, position: int, size: int) -> bytes | bytearray:
        if not self._supports_nowait:
            return self.read(position, size)
        try:
            if size > PROBED_FROM_BYTES:
                return self._read_probed(position, size)
            buffer = bytearray(size)
            got = os.preadv(self._fd, (buffer,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            raise WouldBlock(self, position, size) from None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise to_disk_error(error, self.path) from error
            self._supports_nowait = False  # a disk in memory, mostly
            return self.read(position, size)
        if got == size:
            return buffer
        if position + got < self.size():
            raise WouldBlock(self, position, size)
        del buffer[got:]
        return buffer

    def _read_probed(self, position: int, size: int) -> bytes:
        """The kernel evicts pages in the order of their use: if both ends are in memory the rest is
        too, except for rare holes. Filling a buffer of that size only to be refused, or zeroing it
        first, would cost more than the read."""
        for at in (position, position + size - 1):
            os.preadv(self._fd, (_ONE,), at, os.RWF_NOWAIT)
        return self.read(position, size)

    def pin(self) -> RealFile:
        with _typed_errors(self.path):
            return RealFile(self.path, os.dup(self._fd), self._guard)

    def always_block(self) -> None:
        self._supports_nowait = False

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise to_disk_error(error, self.path) from error

    def flush(self) -> None:
        self._guard.check_flush(self.path)
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            # Never DiskFull: that promises that what was written is there, and a device that finds
            # no room for it now has lost it.
            raise DiskError(f"{self.path}: {error.strerror}", error.errno or 0) from error

    def size(self) -> int:
        with _typed_errors(self.path):
            return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                raise to_disk_error(error, self.path) from error


class RealLock:
    """A directory's ``.lock`` held through flock; the system gives it back if we die."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def absolute_path(path: str) -> str:
    """The same file for whoever has another working directory."""
    return os.path.abspath(path)


class RealDisk:
    """Implements ``disk.port.Disk`` with the operating system."""

    def __init__(self) -> None:
        _raise_open_file_limit()
        self._guard = ServiceGuard()
        self._workers = Workers()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return RealFile(path, os.open(path, flags, 0o644), self._guard)
        except OSError as error:
            raise to_disk_error(error, path) from error

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise to_disk_error(error, path) from error

    def mkdirs(self, path: str) -> None:
        try:
            try:
                os.mkdir(path)  # mostly the parent is there: a new partition in its log directory
            except OSError:
                os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise to_disk_error(error, path) from error

    def rename(self, source: str, target: str) -> None:
        with _typed_errors(source):
            os.rename(source, target)

    def remove(self, path: str) -> None:
        with _typed_errors(path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                return

    def remove_tree(self, path: str) -> None:
        with _typed_errors(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return

    def read_text(self, path: str) -> str:
        with _typed_errors(path), open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def replace_text_durably(self, path: str, text: str) -> None:
        self._guard.check_flush(path)
        temporary = path + ".tmp"
        with _typed_errors(path):
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
            _flush_directory(os.path.dirname(path))

    def flush_directory(self, path: str) -> None:
        self._guard.check_flush(path)
        with _typed_errors(path):
            _flush_directory(path)

    def size_of(self, path: str) -> int:
        with _typed_errors(path):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        with _typed_errors(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, directory: str) -> RealLock:
        path = os.path.join(directory, LOCK_FILE)
        with _typed_errors(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(fd)
                raise DirectoryLocked(
                    f"{directory} is in use by another broker (its .lock is held); "
                    "stop that one or give this one another log.dirs"
                ) from error
        return RealLock(fd)

    def total_bytes(self, path: str) -> int:
        with _typed_errors(path):
            volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def free_bytes(self, path: str) -> int:
        with _typed_errors(path):
            volume = os.statvfs(path)
        return volume.f_bavail * volume.f_frsize

    def begin_service(self) -> None:
        self._guard.begin()

    def end_service(self) -> None:
        self._guard.end()

    async def run(
        self, function: Callable[..., Result], *arguments: Any, worker: str = ""
    ) -> Result:
        # Imported here: the process that cleans has no loop, and six megabytes less without it.
        from asyncio import get_running_loop

        loop = get_running_loop()
        return await loop.run_in_executor(self._workers.of(worker), function, *arguments)


def _raise_open_file_limit() -> None:
    """Each partition holds a file open; the soft limit of many systems (1024) is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _flush_directory(path: str) -> None:
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
