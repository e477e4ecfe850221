"""Reads closed segments in a slow loop to find damaged batches before a consumer does.

Logs and counts each damaged batch. Never repairs one (another replica does), never reads on the
loop, and never reads the active segment, which recovery and followers check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from broker.clock.port import Clock
from broker.disk.port import Disk, DiskError, File
from broker.log.audit import Damage, audit
from broker.log.batch_scanner import ScannedBatch
from broker.log.log import Log
from broker.log.segment import Segment
from broker.metrics.registry import Metrics

log = logging.getLogger("broker.log")

PIECE_BYTES = 1 << 20
"""Read at once on a worker thread: some milliseconds, for which a flush may wait."""

REST_S = 60.0
"""Between two rounds over all logs; without it a small broker would read the same all the time."""

MAX_KNOWN = 10_000
"""Damaged ranges remembered, so that a round does not log those of the last one again."""


class LogScrubber:
    """Invariant: `_known` are damaged ranges that have been logged, found in this round or in the
    one before."""

    def __init__(
        self, logs: Callable[[], list[Log]], disk: Disk, clock: Clock, bytes_per_second: int
    ) -> None:
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._known: set[tuple[str, int]] = set()
        self._read_bytes = 0

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the gauges."""
        metrics.gauge("LogManager", "DamagedBatchCount", lambda: len(self._known))
        metrics.gauge("LogManager", "ScrubbedBytes", lambda: self._read_bytes)

    async def run(self) -> None:
        """Round after round, until cancelled."""
        while self._bytes_per_second > 0:
            await self._clock.sleep(REST_S)
            await self._round()

    async def _round(self) -> None:
        """All logs once. What was damaged in the round before and is not any more is forgotten: it
        was copied again, deleted or truncated, and new damage at its place must be logged."""
        found: set[tuple[str, int]] = set()
        for partition in self._logs():
            for segment in partition.segments.all[:-1]:
                if self._is_current(partition, segment):
                    await self._segment(partition, segment, found)
        self._known &= found

    def _is_current(self, partition: Log, segment: Segment) -> bool:
        """Whether the path still is the file of this segment, whole. A round takes hours, and its
        log may have been truncated, shortened by retention, deleted, created again or moved to
        another directory since: then it holds other segments, or is another log."""
        return segment in partition.segments.all[:-1] and partition in self._logs()

    async def _segment(
        self, partition: Log, segment: Segment, found: set[tuple[str, int]]
    ) -> None:
        try:
            file = self._disk.open(segment.path)
        except DiskError as error:
            log.error("%s cannot be opened: %s", segment.path, error)
            return
        try:
            await self._read(partition, segment, file, found)
        except DiskError as error:
            if self._is_current(partition, segment):
                log.error("%s cannot be read: %s", segment.path, error)
        finally:
            self._close(file)

    async def _read(
        self, partition: Log, segment: Segment, file: File, found: set[tuple[str, int]]
    ) -> None:
        """Read the segment to its end, or until its file is another one."""
        rest = audit(
            file, segment.size_bytes, segment.base_offset, end_offset=segment.end_offset
        )
        while True:
            read_bytes, damaged = await self._disk.run(_audit_piece, rest)
            if not read_bytes or not self._is_current(partition, segment):
                return
            self._read_bytes += read_bytes
            self._report(segment, damaged, found)
            await self._clock.sleep(read_bytes / self._bytes_per_second)

    def _report(
        self, segment: Segment, damaged: list[Damage], found: set[tuple[str, int]]
    ) -> None:
        for one in damaged:
            place = (segment.path, one.position)
            if place in self._known:
                found.add(place)
            elif len(self._known) < MAX_KNOWN:
                self._known.add(place)
                found.add(place)
                log.error(
                    "%s is damaged: %s; docs/operations.md says how to copy it again from "
                    "another replica", segment.path, one,
                )  # fmt: skip

    def _close(self, file: File) -> None:
        try:
            file.close()
        except DiskError as error:
            log.warning("%s", error)


def _audit_piece(rest: Iterator[ScannedBatch | Damage]) -> tuple[int, list[Damage]]:
    """Read one piece: its bytes, 0 at the end, and its damaged ranges."""
    read_bytes, damaged = 0, []
    for one in rest:
        if isinstance(one, ScannedBatch):
            read_bytes += one.header.size_bytes
        else:
            read_bytes += max(one.end_position - one.position, 1)
            damaged.append(one)
        if read_bytes >= PIECE_BYTES:
            break
    return read_bytes, damaged
