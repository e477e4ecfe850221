"""A log on a disk in memory that the cleaner works on, and what it holds, batch by batch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.log.cleaner.model import (
    ActiveProducer,
    CleanedGroup,
    CleanerLimits,
    CleanerSettings,
    CleaningPass,
    CompactedLog,
    PassResult,
    SegmentSummary,
)
from broker.log.cleaner.passes import run_pass
from broker.log.cleaner.plan import cleaning_pass, dirty_log
from broker.log.files import FilePool
from broker.log.log import Log
from broker.log.replacement import replace_segments
from bus.records.batch import BatchHeader, RecordsError, assign, header_at, iter_batches
from bus.records.read import read_records
from bus.records.record import Record
from tests.simulation.disk import ProcessDisk, SimDisk
from tests.simulation.loop import ProcessLife

START_MS = 1_760_000_000_000
DIRECTORY = "/d/table-0"
LIMITS = CleanerLimits(1 << 20, 0.9, 1 << 19)
SETTINGS = CleanerSettings(
    min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=0, max_compaction_lag_ms=2**63 - 1,
    delete_retention_ms=1000, segment_bytes=4000, segment_index_bytes=1 << 20,
    index_interval_bytes=0, is_deleting=False,
)  # fmt: skip


class TableBatch(NamedTuple):
    """One batch of a log; ``records`` is None if it does not unpack."""

    header: BatchHeader
    records: tuple[Record, ...] | None
    data: bytes


class TableLog:
    """Invariant: what stands in ``log`` is replicated and forced once ``settle`` was called."""

    def __init__(self, settings: CleanerSettings = SETTINGS) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.sim = SimDisk("m", random.Random(1), lambda: self.now_ms)
        self.first_dirty_offset = 0
        self.boot()
        self.disk.mkdirs("/d")
        self.log = self.open()

    def boot(self) -> None:
        """A new process."""
        self.disk = ProcessDisk(self.sim, ProcessLife("broker"), random.Random(1))
        self.files = FilePool(self.disk)

    def open(self, recovery_point: int = 0) -> Log:
        config = replace(TopicConfig(), index_interval_bytes=self.settings.index_interval_bytes)
        return Log(
            DIRECTORY, disk=self.disk, config=config, now_ms=self.now_ms,
            recovery_point=recovery_point, files=self.files,
        )  # fmt: skip

    def put(self, batch: bytearray, *, epoch: int = 0, gap: int = 0) -> int:
        """Append a batch as a follower does, offsets left out before it; its base offset."""
        offset = self.log.end_offset + gap
        assign(batch, 0, offset, epoch)
        self.log.append_as_follower(batch, self.now_ms)
        return offset

    def settle(self) -> None:
        """All of it is replicated and forced, and a new segment begins."""
        self.log.roll(self.now_ms)
        self.log.flush()
        self.log.advance_high_watermark(self.log.end_offset)

    def reopen(self) -> None:
        """The process is killed and started again; all was forced."""
        recovery_point, watermark = self.log.recovery_point, self.log.high_watermark
        self.boot()
        self.log = self.open(recovery_point)
        self.log.advance_high_watermark(watermark)

    # --- what it holds ---------------------------------------------------------------------------

    def stored(self) -> list[TableBatch]:
        """All batches, of all segments."""
        stored = []
        for segment in self.log.segments.all:
            data = bytes(segment.read_bytes(0, segment.size_bytes))
            for at, header in iter_batches(data):
                batch = data[at : at + header.size_bytes]
                stored.append(TableBatch(header, records_of(batch), batch))
        return stored

    def summaries(self) -> tuple[SegmentSummary, ...]:
        """Its segments, the active one last."""
        segments = self.log.segments.all
        ends = [*(segment.base_offset for segment in segments[1:]), self.log.end_offset]
        return tuple(
            SegmentSummary(
                base_offset=segment.base_offset, end_offset=end, size_bytes=segment.size_bytes,
                index_bytes=segment.offsets.size_bytes,
                time_index_bytes=segment.times.size_bytes,
                newest_timestamp_ms=segment.largest_timestamp_ms,
                first_timestamp_ms=segment.first_timestamp_ms,
            )
            for segment, end in zip(segments, ends, strict=True)
        )  # fmt: skip

    def compacted(self) -> CompactedLog:
        """As the plan sees it."""
        log = self.log
        return CompactedLog(
            directory=DIRECTORY, topic="table", index=0, generation=3, segments=self.summaries(),
            log_start_offset=log.log_start_offset, high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset, recovery_point=log.recovery_point,
            first_dirty_offset=self.first_dirty_offset, settings=self.settings,
        )  # fmt: skip

    def producers(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(one.producer_id, one.epoch, one.last_offset)
            for one in self.log.producers.active()
        ]

    # --- cleaning --------------------------------------------------------------------------------

    def plan(self, limits: CleanerLimits = LIMITS) -> CleaningPass:
        """The pass that is due, dirty enough or not."""
        dirty = dirty_log(self.compacted(), self.now_ms)
        return cleaning_pass(dirty, self.producers(), limits, self.now_ms)

    def clean(self, limits: CleanerLimits = LIMITS) -> tuple[list[CleanedGroup], PassResult]:
        """One pass, each group swapped as soon as it is reported."""
        cleaning = self.plan(limits)
        groups: list[CleanedGroup] = []
        for report in run_pass(self.disk, cleaning, lambda count: None, "writer"):
            if isinstance(report, PassResult):
                self.first_dirty_offset = report.next_dirty_offset
                return groups, report
            groups.append(report)
            self.swap(report.bases)
        raise AssertionError("a pass ends with its result")

    def swap(self, bases: Iterable[int]) -> None:
        members = [one for one in self.log.segments.all if one.base_offset in set(bases)]
        asyncio.run(replace_segments(self.log, members, self.disk, self.files, RealClock(1), "writer"))


def records_of(batch: bytes) -> tuple[Record, ...] | None:
    """The records of a batch, None if it does not unpack."""
    try:
        records = tuple(read_records(batch))
    except RecordsError:
        return None
    header = header_at(batch)
    offsets = [header.base_offset - 1, *(record.offset for record in records)]
    rises = all(before < after for before, after in pairwise(offsets))
    return records if rises and offsets[-1] <= header.last_offset else None
