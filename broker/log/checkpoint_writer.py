"""Writes the offset checkpoints of the log directories off the loop.

Of two contents that wait for one file the newer one is written. A failed write is reported with its
directory and error. Between ``start`` and ``stop`` no write waits for the device on the thread that
serves requests, and no file is written twice at a time; outside it a file is written at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from broker.clock.port import Clock
from broker.clock.tasks import OnDemandTask
from broker.disk.port import Disk, DiskError
from broker.log.checkpoint import TopicPartition, write_offsets

log = logging.getLogger("broker.log")


Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    """Invariant: per directory at most one write is under way, and per file at most one waits."""

    def __init__(
        self, disk: Disk, clock: Clock, on_failure: Callable[[str, DiskError], None]
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._on_failure = on_failure
        self._waiting: dict[str, dict[str, Offsets]] = {}
        self._writes: dict[str, OnDemandTask] = {}
        self._is_started = False

    def start(self) -> None:
        """From now on requests are served: write on the workers."""
        self._is_started = True

    async def stop(self) -> None:
        """Write what waits; no request is served from now on."""
        for directory in list(self._writes):
            await self.until_written(directory)
        self._is_started = False

    def put(self, directory: str, name: str, offsets: Offsets) -> None:
        """Write ``offsets`` to the file ``name`` of a log directory, and to its copy."""
        if not self._is_started:
            self._report(directory, name, self._write(directory, name, offsets))
            return
        self._waiting.setdefault(directory, {})[name] = offsets
        write = self._writes.get(directory)
        if write is None:
            write = self._writes[directory] = OnDemandTask(
                self._clock, "checkpoints", lambda: self._run(directory)
            )
        write.ensure_running()

    def is_writing(self, directory: str) -> bool:
        """Whether a write is waiting or under way."""
        write = self._writes.get(directory)
        return write is not None and write.task is not None and not write.task.done()

    async def until_written(self, directory: str) -> None:
        """Wait until the files of a directory are written, or the directory has failed."""
        while self.is_writing(directory):
            task = self._writes[directory].task
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
