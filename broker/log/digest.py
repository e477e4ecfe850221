"""Digests of a log's batches as they are on this replica's disk, to compare with another site's.

In: a range of offsets, the width of a block. Out: per block what a mirror compares
(`bus.records.block_digest`). Never reads on the loop; at most ``MAX_UNDER_WAY`` requests at a time,
each for at most ``MAX_BYTES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait
from broker.disk.port import Disk, DiskError, File, WouldBlock
from broker.log.batch_scanner import NO_CRC, BatchScanner
from broker.log.cold_reads import ColdReads
from broker.log.errors import LogError, storage_error
from broker.log.log import Log
from bus.errors import ErrorCode
from bus.records.batch import BatchHeader
from bus.records.block_digest import BlockDigest, BlockDigests

MAX_UNDER_WAY = 8
"""Requests at a time; they take turns on one thread per log directory."""

MAX_BYTES = 16 << 20
"""Of one request: some tens of milliseconds of a disk and of the digest."""

MAX_BLOCKS = 10_000
"""Of one partition in a request: a tiny block must not make an answer of megabytes."""

MAX_POSITION_READS = 4
"""How often the place of an offset is looked up again because it was not in memory."""


@dataclass(slots=True)
class DigestRange:
    """What is digested of one log and what came of it. Invariant: ``blocks`` and the open block
    cover all batches from the first offset asked for up to ``next_offset``."""

    next_offset: int
    to_offset: int
    block_offsets: int
    left_bytes: int
    fault: str = ""
    _digests: BlockDigests = field(init=False)

    def __post_init__(self) -> None:
        self._digests = BlockDigests(self.block_offsets)

    @property
    def blocks(self) -> list[BlockDigest]:
        """Those that are complete, or end with this answer."""
        return self._digests.blocks

    def is_done(self) -> bool:
        """Whether the range, its bytes or its blocks are used up, or the disk holds no log."""
        is_full = self.left_bytes <= 0 or len(self.blocks) >= MAX_BLOCKS
        return is_full or bool(self.fault) or self.next_offset >= self.to_offset

    def add(self, header: BatchHeader, data: memoryview) -> None:
        """A batch of the log, in the order of offsets; one before the range is left out."""
        if header.base_offset < self.next_offset:
            return
        if header.base_offset >= self.to_offset:
            self.next_offset = self.to_offset
            return
        self._digests.add(header, data)
        self.next_offset = header.end_offset
        self.left_bytes -= len(data)

    def close_block(self) -> None:
        """No further batch belongs to the open block, or none of this answer does."""
        self._digests.close()


class LogDigests:
    """The digests of one broker that are under way."""

    def __init__(self, disk: Disk, clock: Clock, cold_reads: ColdReads) -> None:
        self._disk = disk
        self._clock = clock
        self._cold_reads = cold_reads
        self._tasks: set[TaskHandle] = set()

    @property
    def is_full(self) -> bool:
        """Whether no further request is taken now."""
        self._tasks = {one for one in self._tasks if not one.done()}
        return len(self._tasks) >= MAX_UNDER_WAY

    def begin(self, ranges: list[tuple[Log, DigestRange]], then: Callable[[], None]) -> None:
        """Digest each range, one after the other; a range that fails says so in ``fault``."""
        self._tasks.add(self._clock.spawn(self._digest_all(ranges, then), name="digest"))

    async def stop(self) -> None:
        """Stop; pending callbacks are not called."""
        tasks, self._tasks = self._tasks, set()
        await cancel_and_wait(tasks)

    async def _digest_all(
        self, ranges: list[tuple[Log, DigestRange]], then: Callable[[], None]
    ) -> None:
        left_bytes = MAX_BYTES
        for log, wanted in ranges:
            wanted.left_bytes = left_bytes
            try:
                await self._digest(log, wanted)
            except LogError as error:
                wanted.fault = error.detail or error.code.name
            wanted.close_block()
            left_bytes = wanted.left_bytes
        then()

    async def _digest(self, log: Log, wanted: DigestRange) -> None:
        if wanted.is_done():
            return
        found = await self._find(log, wanted.next_offset)
        if found is not None:
            base_offset, position = found
            directory = log.directory.rsplit("/", 1)[0]
            for segment in log.segments.since(base_offset):
                if wanted.is_done():
                    return
                try:
                    # Opened here, where no other file can have taken the segment's name yet.
                    file = self._disk.open(segment.path)
                    await self._disk.run(
                        _digest_file, file, segment.base_offset, position,
                        segment.size_bytes, wanted, worker=f"{directory}/digests",
                    )  # fmt: skip
                except DiskError as error:
                    if segment in log.segments.all:
                        raise storage_error(error) from error
                    return  # deleted since; the mirror asks again from where this answer ends
                if wanted.fault and segment not in log.segments.all:
                    wanted.fault = ""  # truncated under the scan: no damage, asked again too
                    return
                position = 0
        if not wanted.is_done():
            wanted.next_offset = wanted.to_offset

    async def _find(self, log: Log, offset: int) -> tuple[int, int] | None:
        """Base offset of the segment and position in it where an offset's batch begins."""
        for _ in range(MAX_POSITION_READS):
            try:
                with log.non_blocking_reads():
                    found = log.segments.find(offset)
            except WouldBlock as waiting:
                await self._cold_reads.until_read(waiting)
                continue
            except DiskError as error:
                raise storage_error(error) from error
            return None if found is None else (found[0].base_offset, found[1])
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"offset {offset} does not stay in memory")


def _digest_file(
    file: File, base_offset: int, position: int, size: int, wanted: DigestRange
) -> None:
    """On a worker thread, which closes the file: the batches of one segment."""
    try:
        scan = BatchScanner(file, position, size, base_offset=base_offset, crc_from=NO_CRC)
        for found in scan:
            wanted.add(found.header, found.data)
            if wanted.is_done():
                return
        if scan.fault:
            wanted.fault = f"{file.path} is damaged at byte {scan.position}: {scan.fault}"
    finally:
        file.close()
