"""`bench cleaner --only month`: thirty days of the product's compacted topics on one machine.

In: days of virtual time. Out: what is left of each topic, and what a start reads of them beside
the first day. The broker's logs, their maintenance and its cleaner are the real ones, in a folder
in memory and on a loop that waits for nothing; all of it is one thread. Never: a broker's sockets;
topics that are cut by age alone, which are not smaller for being cleaned.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from broker.config.views import BrokerConfig, TopicConfig
from broker.coordinator.group.records import OFFSETS_TOPIC, decode
from broker.coordinator.hashing import java_abs, java_hash
from broker.coordinator.newest_records import AppliedBatches, NewestRecords, stored_batches
from broker.coordinator.open_transactions import OpenTransactions
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.log import Log
from broker.log.manager import LogManager
from bus.contracts.topics import TOPICS
from deploy.bench.cleaner.month_traffic import (
    COMMITS_A_MINUTE,
    DAY_MINUTES,
    TABLES,
    GroupCommits,
    TableCommands,
    positions_by_group,
)
from deploy.bench.cleaner.virtual_time import (
    BenchCleaner,
    BenchClock,
    BenchDisk,
    BenchLoop,
    new_random,
)
from deploy.bench.samples import SampleRecorder, Say

PREFIX = "cleaner-month-"
OFFSETS_MB, TABLES_MB = PREFIX + "offsets", PREFIX + "tables"
START, SECONDS = PREFIX + "start", PREFIX + "cpu"
FIGURES_OF_A_MONTH = (OFFSETS_MB, TABLES_MB, START, SECONDS)
DAYS = 30
CLUSTER_ID = "YmVuY2gtY2xlYW5lci1kYXk"
MEMORY_FOLDER = Path("/dev/shm")
STARTS = 48
"""Of the second half of a day. What a start reads rises until the next pass, up to three times of
what the last one left; of eight looks the mean was off by an eighth."""
READ_BYTES = 1 << 20
LIVE_TIMES = 3
SIZE_EVERY_MINUTES = 10
MINUTE_S = 60.0


class TopicSize(NamedTuple):
    """Bytes of a topic's files, and of the newest record of each key."""

    topic: str
    file_bytes: int
    live_bytes: int


class Month(NamedTuple):
    """What was measured. Times are CPU seconds of this process."""

    days: float
    commits: int
    written_bytes: int
    cleaner_bytes: int
    offsets_bytes: int
    most_offsets_bytes: int
    tables: tuple[TopicSize, ...]
    first_start_s: float
    last_start_s: float
    first_start_records: float
    last_start_records: float
    cpu_s: float


class StartReading(NamedTuple):
    """What one start costs: CPU seconds, records read."""

    cpu_s: float
    records: int


class MonthRun:
    """Invariant: a step of the loop is a minute; commits of that minute stand in the log then."""

    def __init__(
        self, folder: Path, rounds: int = COMMITS_A_MINUTE, starts: int = STARTS
    ) -> None:
        """``rounds``: commits of each position in a minute; ``starts``: measured of a day."""
        self._rounds, self._starts = rounds, starts
        self.loop = BenchLoop()
        self.clock = BenchClock(self.loop)
        self.config = BrokerConfig.from_mapping({
            "log.dirs": str(folder), "log.scrub.bytes.per.second": "0",
        })  # fmt: skip
        disk = BenchDisk()
        self.logs = LogManager(config=self.config, disk=disk, clock=self.clock)
        self.cleaner_bytes = self.written_bytes = self.commits = self.most_offsets_bytes = 0
        process = BenchCleaner(disk, self._count)
        self.cleaner = LogCleaner(self.logs, process, self.clock, OFFSETS_TOPIC.__eq__)
        self.groups: list[GroupCommits] = []
        self.tables: list[TableCommands] = []

    def run(self, days: float, say: Say) -> Month:
        """So many days."""
        try:
            return self.loop.run_until_complete(self._run(round(days * DAY_MINUTES), say))
        finally:
            self.loop.close()

    async def _run(self, minutes: int, say: Say) -> Month:
        began_s = time.process_time()
        await self._open()
        day = min(DAY_MINUTES, minutes)
        first = await self._days(0, day, say)
        # Where all is one day, its starts are both.
        last = await self._days(day, minutes, say) if minutes > day else first
        month = self._month(minutes, first, last, time.process_time() - began_s)
        await self.cleaner.stop()
        await self.logs.stop()
        return month

    def _month(
        self, minutes: int, first: list[StartReading], last: list[StartReading], cpu_s: float
    ) -> Month:
        return Month(
            days=minutes / DAY_MINUTES,
            commits=self.commits,
            written_bytes=self.written_bytes,
            cleaner_bytes=self.cleaner_bytes,
            offsets_bytes=self._offsets_bytes(),
            most_offsets_bytes=self.most_offsets_bytes,
            tables=tuple(
                TopicSize(one.traffic.topic, files_bytes(one.log), live_bytes(one.log))
                for one in self.tables
            ),
            first_start_s=statistics.mean(one.cpu_s for one in first),
            last_start_s=statistics.mean(one.cpu_s for one in last),
            first_start_records=statistics.mean(one.records for one in first),
            last_start_records=statistics.mean(one.records for one in last),
            cpu_s=cpu_s,
        )

    async def _open(self) -> None:
        self.logs.prepare(CLUSTER_ID)
        self.logs.load(lambda topic: self._topic_config(topic))
        self.logs.start()
        self.cleaner.start()
        partitions = int(self.config["offsets.topic.num.partitions"])
        homes: dict[int, Log] = {}
        for group, positions in positions_by_group():
            index = java_abs(java_hash(group)) % partitions
            if index not in homes:
                homes[index] = self._make(OFFSETS_TOPIC, index)
            self.groups.append(GroupCommits(homes[index], positions))
        for traffic in TABLES:
            table = TableCommands(self._make(traffic.topic, 0), traffic, new_random())
            table.write_all(self.clock.now_ms())
            self.tables.append(table)

    def _make(self, topic: str, index: int) -> Log:
        uuid = self.clock.new_uuid()
        return self.logs.create(topic, index, uuid, self._topic_config(topic))

    def _topic_config(self, topic: str) -> TopicConfig:
        """As the product makes it."""
        if topic != OFFSETS_TOPIC:
            return TopicConfig.of(self.config, TOPICS[topic].configs)
        segment_bytes = str(self.config["offsets.topic.segment.bytes"])
        own = {"cleanup.policy": "compact", "compression.type": "producer"}
        return TopicConfig.of(self.config, own | {"segment.bytes": segment_bytes})

    def _count(self, count: int) -> None:
        self.cleaner_bytes += count

    # --- the days --------------------------------------------------------------------------------

    async def _days(self, begin: int, end: int, say: Say) -> list[StartReading]:
        """The minutes of some days; the starts of the last one's second half."""
        length = min(DAY_MINUTES, end - begin)
        looks = {end - length * n // (2 * self._starts) for n in range(self._starts)}
        starts: list[StartReading] = []
        for minute in range(begin + 1, end + 1):
            await self.clock.sleep(MINUTE_S)
            self._write_minute()
            if minute % SIZE_EVERY_MINUTES == 0:
                self.most_offsets_bytes = max(self.most_offsets_bytes, self._offsets_bytes())
            if minute in looks:
                starts.append(self.start())
            if minute % DAY_MINUTES == 0:
                say(f"  day {minute // DAY_MINUTES}: {self.written_bytes / 1e6:,.0f} MB written, "
                    f"{self._offsets_bytes() / 1e6:.1f} MB of {OFFSETS_TOPIC}, "
                    f"{time.process_time():.0f} s")  # fmt: skip
        return starts

    def _write_minute(self) -> None:
        now_ms = self.clock.now_ms()
        for group in self.groups:
            self.written_bytes += group.write_minute(now_ms, self._rounds)
            self.commits += self._rounds * group.keys
        for table in self.tables:
            table.write_minute(now_ms)

    def _offsets_bytes(self) -> int:
        return sum(files_bytes(log) for log in self._offset_logs())

    def _offset_logs(self) -> list[Log]:
        return list(dict.fromkeys(group.log for group in self.groups))

    def start(self) -> StartReading:
        """What a coordinator and the product's processes read before they serve."""
        began_s = time.process_time()
        records = 0
        for log in self._offset_logs():
            newest, read = newest_records(log)
            records += read
            for key, value in newest.items():
                decode(key, value)
        for table in self.tables:
            records += newest_records(table.log)[1]
        return StartReading(time.process_time() - began_s, records)


def newest_records(log: Log) -> tuple[dict[bytes, bytes | None], int]:
    """The newest record of each key, as a coordinator's loader takes them, and how many records
    were read."""
    applied = AppliedBatches((), log.producers)
    newest, records = NewestRecords(applied, OpenTransactions()), 0
    for data in log_bytes(log):
        batches = stored_batches(data, 0, log.end_offset)
        records += sum(batch[-1] for batch in batches)
        for _ in newest.add(data, batches, log.log_start_offset):
            pass
    return dict(newest.drain()), records


def log_bytes(log: Log) -> Iterator[bytes]:
    """Whole batches, all of the log's."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, READ_BYTES).data)
        yield data
        offset = stored_batches(data, 0, log.end_offset)[-1][3]


def live_bytes(log: Log) -> int:
    """Of the newest record of each key: keys and values, and what stands around them in a batch of
    their own."""
    newest, _ = newest_records(log)
    sizes = (len(key) + len(value or b"") for key, value in newest.items())
    return sum(size + RECORD_OVERHEAD_BYTES for size in sizes)


RECORD_OVERHEAD_BYTES = 70
"""A batch's header, and the lengths of a record in it."""


def files_bytes(log: Log) -> int:
    """All files of a log's directory, also those that wait for their removal."""
    return sum(path.stat().st_size for path in Path(log.directory).iterdir())


def measure(
    names: Sequence[str], days: float, recorder: SampleRecorder, say: Say
) -> Month:
    """One month, whichever of its figures are asked for."""
    place = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    with TemporaryDirectory(prefix="databus-month-", dir=place) as folder:
        month = MonthRun(Path(folder)).run(days, say)
    for name, value in month_figures(month).items():
        if name in names:
            recorder.add(name, value, of=f"{days:g} days")
    for line in lines(month):
        say(f"  {line}")
    return month


def month_figures(month: Month) -> dict[str, float]:
    """Of a month, in their units."""
    over = [one.file_bytes - LIVE_TIMES * one.live_bytes for one in month.tables]
    return {
        OFFSETS_MB: month.most_offsets_bytes / 1e6,
        TABLES_MB: max(over) / (1 << 20),
        START: month.last_start_s / month.first_start_s,
        SECONDS: month.cpu_s,
    }


def lines(month: Month) -> Iterator[str]:
    """For people."""
    yield f"{month.commits:,} commits, {month.written_bytes / 1e6:,.0f} MB written"
    yield f"the cleaner read and wrote {month.cleaner_bytes / 1e6:,.0f} MB"
    yield f"{month.cpu_s:.0f} s of CPU"
    yield (f"{OFFSETS_TOPIC}: {month.offsets_bytes / 1e6:.1f} MB at the end, "
           f"{month.most_offsets_bytes / 1e6:.1f} MB at most")  # fmt: skip
    for one in month.tables:
        yield f"{one.topic}: {one.file_bytes / 1e6:.2f} MB, live {one.live_bytes / 1e6:.2f} MB"
    yield (f"a start reads {month.last_start_records:,.0f} records, {month.last_start_s:.3f} s; "
           f"on day one {month.first_start_records:,.0f}, {month.first_start_s:.3f} s")  # fmt: skip
