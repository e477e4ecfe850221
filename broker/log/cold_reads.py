"""Loads bytes that are not in memory off the loop, so that the caller can read them again without
waiting.

Calls back when the bytes are in memory or cannot be read; never returns the bytes themselves: log
and offsets may have changed meanwhile, so the caller reads again. It reads through a handle of its
own: a segment that is deleted, renamed or truncated does not affect it.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait
from broker.disk.port import Disk, DiskError, File, WouldBlock

log = logging.getLogger("broker.log")

PIECE_BYTES = 1 << 20
"""Read at once; what is read is thrown away, the page cache keeps it."""

QUEUES = 2
"""Readers per log directory: one consumer that is far behind does not delay the next."""

MAX_REPEATS = 3
"""How often the same bytes may have left memory again when they are read (some file systems may
report that always). After that their file is read directly, which may block the loop."""

REMEMBERED = 64
"""Reads whose repetitions are counted."""

Key = tuple[str, int, int]


class ColdReads:
    """Invariant: at most one read of the same bytes is under way."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._under_way: dict[Key, list[Callable[[], None]]] = {}
        self._repeats: dict[Key, int] = {}
        self._tasks: set[TaskHandle] = set()

    def begin(self, waiting: WouldBlock, then: Callable[[], None]) -> None:
        """Read the bytes; ``then`` is called when done, also after an error: the next read reports
        it."""
        key = (waiting.path, waiting.position, waiting.size)
        others = self._under_way.get(key)
        if others is not None:
            others.append(then)
            return
        self._count_repeat(key, waiting.file)
        try:
            pinned = waiting.file.pin()
        except DiskError as error:
            log.warning("%s is read on the loop: %s", waiting.path, error)
            waiting.file.always_block()
            self._clock.call_later(0, then)
            return
        self._under_way[key] = [then]
        reading = self._read(key, waiting.file, pinned)
        task = self._clock.spawn(reading, name="cold-read")
        self._tasks = {one for one in self._tasks if not one.done()} | {task}

    async def until_read(self, waiting: WouldBlock) -> None:
        """The same, for a task."""
        read = asyncio.Event()
        self.begin(waiting, read.set)
        await read.wait()

    async def stop(self) -> None:
        """Stop; pending callbacks are not called."""
        tasks, self._tasks = self._tasks, set()
        await cancel_and_wait(tasks)

    def _count_repeat(self, key: Key, file: File) -> None:
        self._repeats[key] = self._repeats.pop(key, 0) + 1
        if self._repeats[key] > MAX_REPEATS:
            log.warning("%s is read on the loop: it does not stay in memory", key[0])
            file.always_block()
        if len(self._repeats) > REMEMBERED:
            del self._repeats[next(iter(self._repeats))]

    async def _read(self, key: Key, file: File, pinned: File) -> None:
        path, position, size = key
        directory = path.rsplit("/", 2)[0]
        worker = f"{directory}/reads-{zlib.crc32(path.encode()) % QUEUES}"
        try:
            await self._disk.run(_load_pages, pinned, position, size, worker=worker)
        except DiskError as error:
            log.warning("%s: %s", path, error)
            file.always_block()  # the next read reports the error itself
        finally:
            pinned.close()
            for then in self._under_way.pop(key):
                then()


def _load_pages(file: File, position: int, size: int) -> None:
    """On a worker thread: load the bytes into the page cache."""
    end_at = position + size
    while position < end_at:
        data = file.read(position, min(PIECE_BYTES, end_at - position))
        if not data:
            return
        position += len(data)
