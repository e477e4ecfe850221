"""One broker that leads one partition of offsets alone, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.coordinator.group.records import (
    OFFSETS,
    OFFSETS_TOPIC,
    CommittedOffset,
    CoordinatorRecord,
    OffsetRecord,
)
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.partition_writer import PartitionWriter
from broker.disk.real import RealDisk
from broker.log.cleaner.log_summary import active_producer, compacted_log
from broker.log.cleaner.model import CleanedGroup, CleanerLimits, CompactedLog
from broker.log.cleaner.passes import run_pass
from broker.log.cleaner.plan import cleaning_pass, dirty_log
from broker.log.replacement import replace_segments
from broker.replica.partition import Partition
from tests.broker.one_broker import opened_logs, replicas_of

CONFIG = replace(TopicConfig(), compacted=True, deletes=False)


class OffsetsBroker:
    """Its log, and what reads and writes it."""

    def __init__(self, directory: str, config: TopicConfig = CONFIG) -> None:
        self.clock = clock = RealClock()
        self.disk = RealDisk()
        self.logs = opened_logs(directory, clock, config)
        self.replicas = replicas_of(self.logs, clock)
        self.appender = PartitionWriter(self.replicas, clock, OFFSETS, 5_000)
        self.partition: Partition = self.replicas.create_partition(
            OFFSETS_TOPIC, bytes(range(16)), 0, leader_id=1, leader_epoch=0, partition_epoch=0,
            replicas=[1], isr=[1], config=config,
        )  # fmt: skip

    def commit(self, group: int) -> None:
        record = OffsetRecord(f"group-{group}", "t", 0, CommittedOffset(100 + group, -1, "", 0))
        self.appender.write(0, [record], lambda: None, lambda error: None)

    def clean(self, now_ms: int) -> None:
        """One pass of the cleaner."""
        log = self.partition.log
        log.flush()
        dirty = dirty_log(_whole(compacted_log(log)), now_ms)
        producers = [active_producer(one) for one in log.producers.entries.values()]
        limits = CleanerLimits(1 << 20, 0.9, 1 << 19)
        by_base = {one.base_offset: one for one in log.segments.all}
        for report in run_pass(
            self.disk, cleaning_pass(dirty, producers, limits, now_ms), lambda count: None
        ):
            if isinstance(report, CleanedGroup) and report.is_changed:
                group = [by_base[base] for base in report.bases]
                asyncio.run(replace_segments(log, group, self.disk, log._files, RealClock(1)))

    def newest(self, transactions: OpenTransactions | None = None) -> list[CoordinatorRecord]:
        """What a coordinator replays when it is elected; what is not in force is put into
        ``transactions``."""
        aside = OpenTransactions() if transactions is None else transactions

        async def all_of_it() -> list[CoordinatorRecord]:
            return [record async for record in self.appender.read_newest(0, aside)]

        return asyncio.run(all_of_it())

    def read(self) -> dict[str, int]:
        """The committed offset of each group."""
        found = {}
        for record in self.newest():
            assert isinstance(record, OffsetRecord)
            assert record.value is not None
            found[record.group_id] = record.value.offset
        return found

    @property
    def path(self) -> Path:
        return Path(self.partition.log.active_segment.path)


def _whole(pieces: Generator[None, None, CompactedLog]) -> CompactedLog:
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            found: CompactedLog = end.value
            return found
