"""The offset checkpoints of the log directories, written beside other work.

In: what each file is to say. Out: the files; of two contents for one file that wait, the newer one;
the directory and error of a write that failed. Never: a wait for the device on the thread that
serves; two writes of one file under way at once.

Before ``start`` and after ``stop`` nobody is served, and a file is written at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from broker.clock.port import Clock
from broker.clock.tasks import Errand
from broker.disk.port import Disk, DiskError
from broker.log.checkpoint import TopicPartition, write_offsets

log = logging.getLogger("broker.log")


Offsets = Mapping[TopicPartition, int]


class Checkpoints:
    """Invariant: per directory at most one write is under way, and per file at most one waits."""

    def __init__(
        self, disk: Disk, clock: Clock, on_failure: Callable[[str, DiskError], None]
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._on_failure = on_failure
        self._waiting: dict[str, dict[str, Offsets]] = {}
        self._errands: dict[str, Errand] = {}
        self._is_started = False

    def start(self) -> None:
        """From now on somebody is served."""
        self._is_started = True

    async def stop(self) -> None:
        """Write what waits; nobody is served any more."""
        for directory in list(self._errands):
            await self.until_written(directory)
        self._is_started = False

    def put(self, directory: str, name: str, offsets: Offsets) -> None:
        """Have the file ``name`` of a log directory, and its copy, say this."""
        if not self._is_started:
            self._report(directory, name, self._write(directory, name, offsets))
            return
        self._waiting.setdefault(directory, {})[name] = offsets
        errand = self._errands.get(directory)
        if errand is None:
            errand = self._errands[directory] = Errand(
                self._clock, "checkpoints", lambda: self._run(directory)
            )
        errand.begin()

    def is_writing(self, directory: str) -> bool:
        """Whether the files do not say yet what they are to say."""
        errand = self._errands.get(directory)
        return errand is not None and errand.task is not None and not errand.task.done()

    async def until_written(self, directory: str) -> None:
        """Until the files of a directory say what they are to say, or it has failed."""
        while self.is_writing(directory):
            task = self._errands[directory].task
            await asyncio.wait([task])  # type: ignore[type-var]

    async def _run(self, directory: str) -> None:
        waiting = self._waiting[directory]
        while waiting:
            name, offsets = waiting.popitem()
            error = await self._disk.run(self._write, directory, name, offsets, worker=directory)
            self._report(directory, name, error)

    def _write(self, directory: str, name: str, offsets: Offsets) -> DiskError | None:
        try:
            write_offsets(self._disk, f"{directory}/{name}", offsets)
        except DiskError as error:
            return error
        return None

    def _report(self, directory: str, name: str, error: DiskError | None) -> None:
        if error is not None:
            log.error("%s/%s was not written: %s", directory, name, error)
            self._on_failure(directory, error)
