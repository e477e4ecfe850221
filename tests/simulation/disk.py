"""A simulated disk: the page cache of a machine, what is durable below it, and its faults.

In: the calls of `broker.disk.port.Disk`, from one process at a time. Out: the same results and
errors as a real disk. The death of a process changes nothing here; `lose_power` does. Never: files
of the machine on which the simulation runs.

A flush takes virtual time drawn from the seed. A flush on a process's loop stops the whole process
(`ProcessLife.spend`); on a worker (`run`) only that worker's queue waits.

Names (files created, renamed, removed) become durable in order, as with a metadata journal:
`flush_directory` makes all of them durable, flushing a new file those up to its own creation.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from broker.disk.port import DirectoryLocked, DiskError, DiskFull, PathMissing, Result, WouldBlock
from tests.simulation.inode import Inode
from tests.simulation.loop import ProcessLife

ENOSPC, EIO, EBADF = 28, 5, 9
CAPACITY_BYTES = 4 << 30
FLUSH_S = (0.0002, 0.003)
MOST_HELD_S = 10.0
"""Limit for any number of flushes in one step: a device merges waiting flushes."""


Fault = Callable[[str, str], None]
"""Called with the kind of a call and its path."""


def no_fault(kind: str, path: str) -> None:
    """A disk without faults."""


def input_output_error(path: str) -> DiskError:
    """The error of a broken device."""
    return DiskError(f"{path}: input/output error", EIO)


class Killed(BaseException):
    """The process died in the middle of a file operation."""


class SimFile:
    """An open file of one process."""

    __slots__ = ("_closed", "_disk", "_inode", "_is_telling", "path")

    def __init__(self, disk: ProcessDisk, path: str, inode: Inode) -> None:
        self._disk, self._inode, self.path = disk, inode, path
        self._closed = False
        self._is_telling = True

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self.write_at(len(self._inode.data), data)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self._check_open()
        self._disk.fault("write", self.path)
        room = self._disk.before_write(self.path, len(data))
        if room < len(data):
            self._inode.write(position, bytes(data[:room]))
            raise DiskFull(f"{self.path}: no space left on device", ENOSPC)
        self._inode.write(position, data)
        self._inode.modified_ms = self._disk.machine.now_ms()

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        self._disk.fault("read", self.path)
        return bytes(self._inode.data[position : position + size])

    def read_now(self, position: int, size: int) -> bytes:
        if self._is_telling and self._disk.is_cold(self.path, position):
            raise WouldBlock(self, position, size)
        return self.read(position, size)

    def pin(self) -> SimFile:
        return SimFile(self._disk, self.path, self._inode)

    def always_block(self) -> None:
        self._is_telling = False

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.fault("truncate", self.path)
        self._disk.before_write(self.path, 0)
        self._inode.truncate(size)

    def flush(self) -> None:
        self._check_open()
        self._disk.fault("flush", self.path)
        self._disk.before_write(self.path, 0)
        self._disk.machine.flush_inode(self._inode)
        self._disk.wait_for_device()

    def size(self) -> int:
        self._check_open()
        return len(self._inode.data)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise DiskError(f"{self.path}: bad file descriptor", EBADF)


class SimDisk:
    """The disk of one machine. Invariant: every file's directory is in `dirs`."""

    def __init__(self, name: str, dice: random.Random, now_ms: Callable[[], int]) -> None:
        self.name = name
        self.files: dict[str, Inode] = {}
        self.dirs: dict[str, None] = {"/": None}
        self.locks: dict[str, ProcessLife] = {}
        self.capacity_bytes = CAPACITY_BYTES
        self.flush_s = FLUSH_S
        self.boots = 1
        self.now_ms = now_ms
        self._dice = dice
        self._names: list[Callable[[], None]] = []
        self._committed = 0

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self.files.values())

    def fill_up(self, room_bytes: int) -> None:
        """Fills the volume, as another tenant would, up to `room_bytes`."""
        self.capacity_bytes = self.used_bytes + room_bytes

    def lose_power(self) -> int:
        """Drops bytes that were not durable, wholly or in part; returns how many operations were
        affected."""
        self.boots += 1
        self.locks.clear()
        harmed = sum(self.files[path].lose_power(self._dice) for path in sorted(self.files))
        keep = self._dice.randrange(0, len(self._names) + 1)
        for undo in reversed(self._names[keep:]):
            undo()
        self._commit_names()
        return harmed

    def flush_inode(self, inode: Inode) -> None:
        """fdatasync; makes a new file's name durable, too."""
        inode.flush()
        if inode.made_at >= self._committed:
            del self._names[: inode.made_at - self._committed + 1]
            self._committed = inode.made_at + 1

    def flush_names(self) -> None:
        """fsync of a directory."""
        self._commit_names()

    def _commit_names(self) -> None:
        self._committed += len(self._names)
        self._names.clear()

    def make(self, path: str) -> Inode:
        """Creates an empty file."""
        inode = self.files[path] = Inode(self.now_ms())
        inode.made_at = self._committed + len(self._names)
        self._names.append(lambda: _drop(self.files, path))
        return inode

    def remove(self, path: str) -> None:
        """Removes a name; a power loss soon afterwards may bring it back with its bytes."""
        inode = self.files.pop(path)
        self._names.append(lambda: self.files.__setitem__(path, inode))

    def rename_file(self, source: str, target: str) -> None:
        """Renames a file, replacing one at `target`."""
        inode, replaced = self.files.pop(source), self.files.get(target)
        self.files[target] = inode

        def undo() -> None:
            _drop(self.files, target)
            if replaced is not None:
                self.files[target] = replaced
            self.files[source] = inode

        self._names.append(undo)

    def rename_tree(self, source: str, target: str) -> None:
        """Renames a directory with its content."""
        self._move(source, target)
        self._names.append(lambda: self._move(target, source))

    def _move(self, source: str, target: str) -> None:
        for table in (self.files, self.dirs):
            for path in [p for p in table if p == source or p.startswith(source + "/")]:
                table[target + path[len(source) :]] = table.pop(path)  # type: ignore[index]


class ProcessDisk:
    """Implements `broker.disk.port.Disk` for one process on a machine's disk."""

    def __init__(self, machine: SimDisk, life: ProcessLife, dice: random.Random) -> None:
        self.machine = machine
        self._life = life
        self._dice = dice
        self.die_after: int | None = None
        """Number of writes and flushes after which the process dies."""
        self.on_die: Callable[[], None] = life.die
        self.is_cold: Callable[[str, int], bool] = lambda path, position: False
        """Whether bytes of a file are not in memory; used for reads that must not block."""
        self._fault: Fault = no_fault
        self.was_broken = False
        """Whether this process ever had a fault or a full disk."""
        self._queues: dict[str, asyncio.Future[None]] = {}
        self._worker_waits_s: float | None = None
        """How long the current worker function has waited so far; None on the loop."""

    @property
    def fault(self) -> Fault:
        """Called before every call that a broken disk may refuse; raises the disk's error."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        self.was_broken = self.was_broken or fault is not no_fault

    def before_write(self, path: str, size: int) -> int:
        """Returns how many bytes fit; here a process may die in the middle of an operation."""
        if self._life.dead:
            raise Killed(f"{self._life} writes {path} after its death")
        if self.die_after is not None:
            self.die_after -= 1
            if self.die_after < 0:
                self.on_die()
                raise Killed(f"{self._life} died before writing {path}")
        machine = self.machine
        if size and machine.capacity_bytes != CAPACITY_BYTES:
            self.was_broken = True
            return max(min(size, machine.capacity_bytes - machine.used_bytes), 0)
        return size

    def took_s(self) -> float:
        """The device's time for a flush."""
        low, high = self.machine.flush_s
        return low + (high - low) * self._dice.random()

    def wait_for_device(self) -> None:
        """Delays the end of the current step, which requested a flush."""
        if self._worker_waits_s is not None:
            self._worker_waits_s = min(self._worker_waits_s + self.took_s(), MOST_HELD_S)
            return
        loop = asyncio._get_running_loop()
        if loop is not None:
            held_s = max(self._life.busy_until - loop.time(), 0.0)
            self._life.spend(loop.time(), max(min(self.took_s(), MOST_HELD_S - held_s), 0.0))

    def boot_id(self) -> str:
        """Identifies the machine's boot: the page cache is lost between two boots."""
        return f"{self.machine.name}-boot-{self.machine.boots}"

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.fault("open", path)
        inode = self.machine.files.get(path)
        if inode is None:
            if not create or _parent(path) not in self.machine.dirs:
                raise PathMissing(f"{path}: no such file", 2)
            self.before_write(path, 0)
            inode = self.machine.make(path)
        return SimFile(self, path, inode)

    def exists(self, path: str) -> bool:
        return path in self.machine.files or path.rstrip("/") in self.machine.dirs

    def listdir(self, path: str) -> list[str]:
        self.fault("listdir", path)
        root = path.rstrip("/")
        if root not in self.machine.dirs:
            raise PathMissing(f"{path}: no such directory", 2)
        start = len(root) + 1
        names = {
            other[start:].split("/", 1)[0]
            for table in (self.machine.files, self.machine.dirs)
            for other in table
            if other.startswith(root + "/")
        }
        return sorted(names)

    def mkdirs(self, path: str) -> None:
        self.fault("mkdirs", path)
        parts = path.rstrip("/").split("/")
        for end in range(2, len(parts) + 1):
            self.machine.dirs.setdefault("/".join(parts[:end]))

    def rename(self, source: str, target: str) -> None:
        self.fault("rename", source)
        self.before_write(source, 0)
        if source in self.machine.files:
            self.machine.rename_file(source, target)
        elif source in self.machine.dirs:
            self.machine.rename_tree(source, target)
        else:
            raise PathMissing(f"{source}: no such file", 2)

    def remove(self, path: str) -> None:
        self.fault("remove", path)
        self.before_write(path, 0)
        if path in self.machine.files:
            self.machine.remove(path)

    def remove_tree(self, path: str) -> None:
        self.fault("remove", path)
        self.before_write(path, 0)
        for other in [p for p in self.machine.files if p.startswith(path + "/")]:
            self.machine.remove(other)
        for other in [p for p in self.machine.dirs if p == path or p.startswith(path + "/")]:
            del self.machine.dirs[other]

    def read_text(self, path: str) -> str:
        self.fault("read", path)
        inode = self.machine.files.get(path)
        if inode is None:
            raise PathMissing(f"{path}: no such file", 2)
        return inode.data.decode("utf-8", errors="replace")

    def replace_text_durably(self, path: str, text: str) -> None:
        temporary = self.open(path + ".tmp", create=True)
        temporary.truncate(0)
        temporary.append(text.encode())
        temporary.flush()
        self.rename(path + ".tmp", path)
        self.flush_directory(_parent(path))

    def flush_directory(self, path: str) -> None:
        self.fault("flush", path)
        self.before_write(path, 0)
        self.machine.flush_names()
        self.wait_for_device()

    def size_of(self, path: str) -> int:
        self.fault("stat", path)
        inode = self.machine.files.get(path)
        if inode is None:
            raise PathMissing(f"{path}: no such file", 2)
        return len(inode.data)

    def modified_ms(self, path: str) -> int:
        self.fault("stat", path)
        inode = self.machine.files.get(path)
        if inode is None:
            raise PathMissing(f"{path}: no such file", 2)
        return inode.modified_ms

    def lock(self, directory: str) -> SimLock:
        holder = self.machine.locks.get(directory)
        if holder is not None and not holder.dead:
            raise DirectoryLocked(f"{directory} is in use by another broker ({holder})")
        if f"{directory}/.lock" not in self.machine.files:
            self.machine.make(f"{directory}/.lock")
        self.machine.locks[directory] = self._life
        return SimLock(self.machine, directory, self._life)

    def total_bytes(self, path: str) -> int:
        return self.machine.capacity_bytes

    def free_bytes(self, path: str) -> int:
        return max(self.machine.capacity_bytes - self.machine.used_bytes, 0)

    def begin_service(self) -> None:
        """Only the real disk refuses a flush on the loop."""

    def end_service(self) -> None:
        """See `begin_service`."""

    async def run(
        self, function: Callable[..., Result], *arguments: Any, worker: str = ""
    ) -> Result:
        """Runs `function` later, as on a worker thread, in order if `worker` is given; flushed
        bytes are durable at the end of the wait, those of its second and later flushes in the
        middle."""
        if not worker:
            return await self._work(function, arguments)  # type: ignore[no-any-return]
        loop = asyncio.get_running_loop()
        before, done = self._queues.get(worker), loop.create_future()
        self._queues[worker] = done
        begun = loop.create_task(self._in_turn(before, done, function, arguments))
        begun.add_done_callback(_retrieve_exception)  # a cancelled caller gets no error
        return await asyncio.shield(begun)  # type: ignore[no-any-return]

    async def _in_turn(
        self,
        before: asyncio.Future[None] | None,
        done: asyncio.Future[None],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> Any:
        """Runs one call of a worker's queue after the previous one."""
        try:
            if before is not None:
                await before
            return await self._work(function, arguments)
        finally:
            if not done.done():
                done.set_result(None)

    async def _work(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        first_s = self.took_s()
        await asyncio.sleep(first_s)
        self._worker_waits_s = 0.0
        try:
            return function(*arguments)
        finally:
            waited_s, self._worker_waits_s = self._worker_waits_s, None
            await asyncio.sleep(max(waited_s - first_s, 0.0))


class SimLock:
    """A held lock, released when its process ends."""

    def __init__(self, machine: SimDisk, directory: str, life: ProcessLife) -> None:
        self._machine, self._directory, self._life = machine, directory, life

    def release(self) -> None:
        if self._machine.locks.get(self._directory) is self._life:
            del self._machine.locks[self._directory]


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0]


def _drop(files: dict[str, Inode], path: str) -> None:
    files.pop(path, None)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
