"""Closed segments read again and again, slowly, so that rot is known before somebody needs them.

In: the logs of a broker, a pace. Out: a line and a figure for each damaged batch. Never: a repair
(a replica elsewhere is the repair), a read on the loop, a segment that is being written to;
recovery and followers look at those.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from broker.clock.port import Clock
from broker.disk.port import Disk, DiskError, File
from broker.log.audit import Damage, audit
from broker.log.log import Log
from broker.log.scan import Found
from broker.log.segment import Segment
from broker.metrics.registry import Metrics

log = logging.getLogger("broker.log")

PIECE_BYTES = 1 << 20
"""Read in one go on a worker thread: some milliseconds, for which a flush may wait."""

REST_S = 60.0
"""Between two rounds over all logs; a small broker would else read the same all the time."""

MAX_KNOWN = 10_000
"""Damaged places remembered, so that a round does not name again what the last one did."""


class Scrub:
    """Invariant: `_known` are damaged places that have been named."""

    def __init__(
        self, logs: Callable[[], list[Log]], disk: Disk, clock: Clock, bytes_per_second: int
    ) -> None:
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._known: set[tuple[str, int]] = set()
        self._read_bytes = 0

    def measure(self, metrics: Metrics) -> None:
        """Show what was found."""
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
                read_bytes, damaged = await self._disk.run(_some, rest)
                if not read_bytes:
                    return
                self._read_bytes += read_bytes
                if segment in partition.segments.all[:-1] and segment.size_bytes == size:
                    self._name(segment, damaged)
                await self._clock.sleep(read_bytes / self._bytes_per_second)
        except DiskError as error:
            log.error("%s cannot be read: %s", segment.path, error)
        finally:
            self._close(file)

    def _name(self, segment: Segment, damaged: list[Damage]) -> None:
        for one in damaged:
            place = (segment.path, one.position)
            if place not in self._known and len(self._known) < MAX_KNOWN:
                self._known.add(place)
                log.error(
                    "%s is damaged: %s; docs/operations.md says how it is copied anew from "
                    "another replica", segment.path, one,
                )  # fmt: skip

    def _close(self, file: File) -> None:
        try:
            file.close()
        except DiskError as error:
            log.warning("%s", error)


def _some(rest: Iterator[Found | Damage]) -> tuple[int, list[Damage]]:
    """Go on until a piece has been read: its bytes, 0 at the end, and what of it is damaged."""
    read_bytes, damaged = 0, []
    for one in rest:
        if isinstance(one, Found):
            read_bytes += one.header.size_bytes
        else:
            read_bytes += max(one.end_position - one.position, 1)
            damaged.append(one)
        if read_bytes >= PIECE_BYTES:
            break
    return read_bytes, damaged
