"""How long the loop is held at a time: while a partition of groups is loaded, and while a log of
many segments is planned and its cleaned groups are swapped in. In a process of its own.

In: what, how much of it. Out: one line of JSON: seconds of the whole, the longest pieces in
milliseconds. Pieces are callbacks of the loop, by the CPU time of its thread: other work on the
machine does not lengthen them, a collection of garbage does.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import sys
import time
from collections.abc import Coroutine
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from broker.cleaner_process.real import RealCleanerProcess
from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.coordinator.group.records import OFFSETS, OFFSETS_TOPIC, CommittedOffset, OffsetRecord
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.group.shard import GroupLimits
from broker.coordinator.partition_writer import PartitionWriter
from broker.disk.real import RealDisk
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.server.process import GC_THRESHOLDS
from bus.records.build import build_batch
from bus.records.record import Record

NOW_MS = 1_760_000_000_000
TOPIC_ID = bytes(range(16))
MOST_UNCLEANED = 20_000
"""Records beyond the live keys: where a coordinator's segment is closed."""
GROUPS = 100
"""Of a partition; its keys are spread over them."""
LONGEST = 5
"""Pieces that are shown."""
KEYS_PER_SEGMENT = 40
CHILD = "broker.log.cleaner.child"


class LoopPieces(NamedTuple):
    """Of one piece of work."""

    seconds: float
    longest_ms: list[float]


def main() -> None:
    """`load KEYS` or `swap SEGMENTS`."""
    what, amount = sys.argv[1], int(sys.argv[2])
    with TemporaryDirectory(prefix="databus-pieces-") as folder:
        work = {"load": _load, "swap": _swap}[what]
        print(json.dumps(asyncio.run(work(folder, amount))._asdict()))


class _LoopClock:
    """The CPU time of each callback of the loop, while it is looked at."""

    def __init__(self) -> None:
        self._pieces: list[float] = []

    @contextmanager
    def timed(self) -> Any:
        run = asyncio.Handle._run

        def timed_run(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self._pieces.append(time.thread_time() - began)

        asyncio.Handle._run = timed_run  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]

    async def during(self, work: Coroutine[Any, Any, None]) -> LoopPieces:
        gc.collect()
        gc.freeze()  # as a broker that has started
        gc.set_threshold(*GC_THRESHOLDS)
        began = time.perf_counter()
        with self.timed():
            await work
        seconds = time.perf_counter() - began
        longest = heapq.nlargest(LONGEST, self._pieces)
        return LoopPieces(round(seconds, 3), [round(1000 * one, 2) for one in longest])


class _Logs:
    def __init__(self, folder: str) -> None:
        self.clock = RealClock(1)
        self.config = BrokerConfig.from_mapping({"log.dirs": folder, "node.id": "1"})
        self.disk = RealDisk()
        self.logs = LogManager(config=self.config, disk=self.disk, clock=self.clock)
        self.logs.prepare()

    def open(self, config: TopicConfig) -> None:
        self.logs.load(lambda topic: config)


async def _load(folder: str, keys: int) -> LoopPieces:
    """A partition of offsets that was cleaned, with as many records more as it may have."""
    made = _Logs(folder)
    config = replace(TopicConfig(), compacted=True, deletes=False)
    made.open(config)
    timer = Timer(made.clock)
    replicas = ReplicaManager(
        broker_id=1, log_manager=made.logs, clock=made.clock, timer=timer, metrics=Metrics()
    )
    writer = PartitionWriter(replicas, made.clock, OFFSETS, 60_000)
    limits = GroupLimits(1, 60_000, 0, 100, 1 << 40, 4096)
    groups = GroupCoordinator(
        writer=writer, timer=timer, clock=made.clock, limits=limits, partition_count=lambda: 1
    )
    partition = replicas.create_partition(
        OFFSETS_TOPIC, TOPIC_ID, 0, leader_id=1, leader_epoch=0, partition_epoch=0,
        replicas=[1], isr=[1], config=config,
    )  # fmt: skip
    for number in range(keys + MOST_UNCLEANED):
        _commit(partition.log, number % keys)
    partition.log.advance_high_watermark(partition.log.end_offset)

    async def load() -> None:
        groups.on_elected(0)
        while groups.is_loading:
            await asyncio.sleep(0.001)

    return await _LoopClock().during(load())


def _commit(log: Log, key: int) -> None:
    value = CommittedOffset(key, -1, "", NOW_MS)
    record = OffsetRecord(f"group-{key % GROUPS}", f"topic-{key // GROUPS // 32}",
                          key // GROUPS % 32, value)  # fmt: skip
    batch = build_batch([Record(*OFFSETS.encode(record), timestamp_ms=NOW_MS)])
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)


async def _swap(folder: str, segments: int) -> LoopPieces:
    """A table of small segments, each of which loses all but its last records."""
    made = _Logs(folder)
    config = replace(TopicConfig(), compacted=True, deletes=False, max_compaction_lag_ms=1)
    made.open(config)
    log = made.logs.create("table", 0, TOPIC_ID, config)
    for _ in range(segments):
        records = [Record(b"%d" % key, b"v" * 50, timestamp_ms=NOW_MS)
                   for key in range(KEYS_PER_SEGMENT)]  # fmt: skip
        log.append(build_batch(records), leader_epoch=0, now_ms=NOW_MS)
        log.roll(NOW_MS)
    log.flush()
    log.advance_high_watermark(log.end_offset)
    made.logs.start()  # from here on checkpoints are written beside the loop
    process = RealCleanerProcess(CHILD)
    cleaner = LogCleaner(made.logs, process, made.clock, lambda topic: False)

    async def clean() -> None:
        await cleaner.begin_due_passes()
        await cleaner.until_idle()

    found = await _LoopClock().during(clean())
    await process.stop()
    await made.logs.stop()
    return found


if __name__ == "__main__":
    main()
