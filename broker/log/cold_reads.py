"""Reads off the loop of what is not in memory: then it is there, and is read again.

In: what a read said it would wait for. Out: a call when it is in memory, or cannot be had. Never:
the bytes themselves. Log and offsets may have changed meanwhile, so whoever needs them looks anew.
The handle read through is its own: a segment that is deleted, renamed or cut does not harm it.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import end
from broker.disk.port import Disk, DiskError, File, WouldWait

log = logging.getLogger("broker.log")

PIECE_BYTES = 1 << 20
"""Read at once; what is read is thrown away, the page cache keeps it."""

QUEUES = 2
"""Readers per log directory: one consumer that has fallen behind far does not hold up the next."""

MOST_REPEATS = 3
"""So often the same bytes may be gone from memory again when they are looked for (some file system
may say so of all). After that their file is read as it is, which may hold up the loop."""

REMEMBERED = 64
"""Reads whose repetition is noticed."""

Key = tuple[str, int, int]


class ColdReads:
    """Invariant: of the same bytes one read is under way at most."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._under_way: dict[Key, list[Callable[[], None]]] = {}
        self._repeats: dict[Key, int] = {}
        self._tasks: set[TaskHandle] = set()

    def begin(self, waiting: WouldWait, then: Callable[[], None]) -> None:
        """Read it; ``then`` is called when that is done, also if it failed: reading says why."""
        key = (waiting.path, waiting.position, waiting.size)
        others = self._under_way.get(key)
        if others is not None:
            others.append(then)
            return
        self._note(key, waiting.file)
        try:
            pinned = waiting.file.pin()
        except DiskError as error:
            log.warning("%s is read on the loop: %s", waiting.path, error)
            waiting.file.always_wait()
            self._clock.call_later(0, then)
            return
        self._under_way[key] = [then]
        reading = self._read(key, waiting.file, pinned)
        task = self._clock.spawn(reading, name="cold-read")
        self._tasks = {one for one in self._tasks if not one.done()} | {task}

    async def until_read(self, waiting: WouldWait) -> None:
        """The same, for a task."""
        read = asyncio.Event()
        self.begin(waiting, read.set)
        await read.wait()

    async def stop(self) -> None:
        """End; whoever waits is called no more."""
        tasks, self._tasks = self._tasks, set()
        await end(tasks)

    def _note(self, key: Key, file: File) -> None:
        self._repeats[key] = self._repeats.pop(key, 0) + 1
        if self._repeats[key] > MOST_REPEATS:
            log.warning("%s is read on the loop: it does not stay in memory", key[0])
            file.always_wait()
        if len(self._repeats) > REMEMBERED:
            del self._repeats[next(iter(self._repeats))]

    async def _read(self, key: Key, file: File, pinned: File) -> None:
        path, position, size = key
        directory = path.rsplit("/", 2)[0]
        worker = f"{directory}/reads-{zlib.crc32(path.encode()) % QUEUES}"
        try:
            await self._disk.run(_bring, pinned, position, size, worker=worker)
        except DiskError as error:
            log.warning("%s: %s", path, error)
            file.always_wait()  # the next read meets the error itself
        finally:
            pinned.close()
            for then in self._under_way.pop(key):
                then()


def _bring(file: File, position: int, size: int) -> None:
    """On a worker thread: have the page cache hold it."""
    end_at = position + size
    while position < end_at:
        data = file.read(position, min(PIECE_BYTES, end_at - position))
        if not data:
            return
        position += len(data)
