"""Free space and stray logs of the log directories, for the metrics.

Reads each directory every half minute, off the loop. Reading a metric never calls the file system:
a disk that hangs would hang the reader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from broker.clock.port import Clock
from broker.disk.port import Disk, DiskError
from broker.log import strays
from broker.metrics.registry import Metrics

log = logging.getLogger("broker.log")

REFRESH_EVERY_MS = 30_000
"""Between two reads; a disk that fills within it is known by the first write it refuses."""

REFUSED_S = 60.0
"""How long a disk counts as full after it refused a write: the refused writer tries again."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A log directory as it was when last read."""

    total_bytes: int = 0
    free_bytes: int = 0
    strays: int = 0
    stray_bytes: int = 0


class Volumes:
    """The directories of one broker."""

    def __init__(self, directories: tuple[str, ...], disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._seen = dict.fromkeys(directories, Volume())
        self._refused: dict[str, float] = {}

    def refresh_now(self) -> None:
        """Read all of them on this thread."""
        for directory in self._seen:
            self._seen[directory] = _read_volume(self._disk, directory, self._seen[directory])

    async def refresh(self) -> None:
        """Read all of them on their own workers."""
        for directory, before in list(self._seen.items()):
            self._seen[directory] = await self._disk.run(
                _read_volume, self._disk, directory, before, worker=directory
            )

    def record_refusal(self, directory: str) -> bool:
        """The disk had no room for a write; whether it should be logged."""
        now = self._clock.monotonic()
        is_news = now - self._refused.get(directory, -REFUSED_S) >= REFUSED_S
        self._refused[directory] = now
        return is_news

    def full_count(self) -> int:
        """Directories whose disk refused a write within ``REFUSED_S``."""
        now = self._clock.monotonic()
        return sum(now - when < REFUSED_S for when in self._refused.values())

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the gauges."""

        def total(figure: Callable[[Volume], int]) -> Callable[[], int]:
            return lambda: sum(map(figure, self._seen.values()))

        metrics.gauge("LogManager", "FullLogDirectoryCount", self.full_count)
        metrics.gauge("LogManager", "StrayPartitionCount", total(lambda one: one.strays))
        metrics.gauge("LogManager", "StrayPartitionBytes", total(lambda one: one.stray_bytes))
        for directory in self._seen:
            metrics.gauge("LogManager", "LogDirectoryFreeBytes",
                          self._of(directory, lambda one: one.free_bytes),
                          log_directory=directory)  # fmt: skip
            metrics.gauge("LogManager", "LogDirectoryTotalBytes",
                          self._of(directory, lambda one: one.total_bytes),
                          log_directory=directory)  # fmt: skip

    def _of(self, directory: str, figure: Callable[[Volume], int]) -> Callable[[], int]:
        return lambda: figure(self._seen[directory])


def _read_volume(disk: Disk, directory: str, before: Volume) -> Volume:
    try:
        kept = strays.paths(disk, directory)
        return Volume(
            disk.total_bytes(directory),
            disk.free_bytes(directory),
            len(kept),
            sum(strays.size_bytes(disk, path) for path in kept),
        )
    except DiskError as error:
        log.warning("%s cannot be looked at: %s", directory, error)
        return before
