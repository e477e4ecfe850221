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
    """Invariant: `_known` are damaged ranges that have been logged."""

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
            for partition in self._logs():
                for segment in partition.segments.all[:-1]:
                    await self._segment(partition, segment)

    async def _segment(self, partition: Log, segment: Segment) -> None:
        size = segment.size_bytes
        try:
            file = self._disk.open(segment.path)
        except DiskError:
            return  # deleted meanwhile
        rest = audit(file, size, segment.base_offset, end_offset=segment.end_offset)
        try:
            while True:
                read_bytes, damaged = await self._disk.run(_audit_piece, rest)
                if not read_bytes:
                    return
                self._read_bytes += read_bytes
                if segment in partition.segments.all[:-1] and segment.size_bytes == size:
                    self._report(segment, damaged)
                await self._clock.sleep(read_bytes / self._bytes_per_second)
        except DiskError as error:
            log.error("%s cannot be read: %s", segment.path, error)
        finally:
            self._close(file)

    def _report(self, segment: Segment, damaged: list[Damage]) -> None:
        for one in damaged:
            place = (segment.path, one.position)
            if place not in self._known and len(self._known) < MAX_KNOWN:
                self._known.add(place)
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
