"""The broker's side of cleaning: what is taken over, what is not, and what is known after a start."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from broker.cleaner_process.port import FailureKind, RequestFailed
from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DiskError, DiskFull
from broker.disk.real import RealDisk
from broker.log.checkpoint import read_offsets
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.cleaner.order_runner import run_order
from broker.log.cleaner.pieces import DamagedSegment, SegmentPieces
from broker.log.cleaner.segment_rolls import MOST_UNCLEANED_RECORDS
from broker.log.cleaner.uncleanable import FULL_DISK_REST_MS, CleaningFault
from broker.log.log import Log
from broker.log.log_checkpoints import FIRST_DIRTY
from broker.log.manager import LogManager
from broker.log.retention import delete_old_segments
from broker.metrics.registry import Metrics
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.read import read_all
from bus.records.record import Record

TOPIC_ID = b"t" * 16
TABLE = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
Hook = Callable[[], Awaitable[None]]


class SettableClock(RealClock):
    """The wall clock is what a test says."""

    def __init__(self) -> None:
        super().__init__(1)
        self.at_ms = 1_760_000_000_000

    def now_ms(self) -> int:  # type: ignore[override]
        return self.at_ms


class PassesHere:
    """The port without a process: the product's passes, and what a test has happen between."""

    def __init__(self, disk: RealDisk) -> None:
        self.disk = disk
        self.before_report: Hook | None = None
        self.fails_with: RequestFailed | None = None
        self.requests = 0
        self.running = self.most_running = 0
        self.gate: asyncio.Event | None = None

    async def run(self, request: bytes) -> AsyncGenerator[bytes, None]:
        self.requests += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.fails_with is not None:
                raise self.fails_with
            for body in run_order(self.disk, request, lambda count: None):
                if self.before_report is not None:
                    await self.before_report()
                yield body
        finally:
            self.running -= 1

    def limit_rate(self, bytes_per_second: float) -> None:
        """As fast as it goes."""

    async def stop(self) -> None:
        """Nothing to end."""


class CleanedBroker:
    """The logs of a broker and their cleaner, as one process has them."""

    def __init__(self, root: Path, **properties: str) -> None:
        self.config = BrokerConfig.from_mapping({"log.dirs": f"{root}/a,{root}/b", **properties})
        self.disk = RealDisk()
        self.clock = SettableClock()
        self.logs = LogManager(config=self.config, disk=self.disk, clock=self.clock)
        self.logs.prepare()
        self.process = PassesHere(self.disk)
        self.cleaner = LogCleaner(self.logs, self.process, self.clock, lambda name: name == "own")
        self.metrics = Metrics()
        self.cleaner.figures.register_metrics(self.metrics, self.logs.directories)
        self.failures: list[str] = []
        self.logs.on_failure = lambda partition, error: self.failures.append(partition.directory)

    def start(self, **topic: str) -> None:
        """Open what is there."""
        self.logs.load(lambda name: self.topic(**topic))
        self.logs.start()

    def topic(self, **more: str) -> TopicConfig:
        named = {name.replace("_", "."): value for name, value in more.items()}
        return TopicConfig.of(self.config, TABLE | named)

    def make(self, name: str = "t", **more: str) -> Log:
        return self.logs.create(name, 0, TOPIC_ID, self.topic(**more))

    def fill(self, log: Log, rounds: int = 40, keys: int = 5) -> None:
        """Every key once a round; all of it is committed and forced."""
        for number in range(rounds):
            records = [
                Record(b"k%d" % key, b"v%d" % number, timestamp_ms=self.clock.now_ms())
                for key in range(keys)
            ]
            log.append(build_batch(records), leader_epoch=1, now_ms=self.clock.now_ms())
        log.flush()
        log.advance_high_watermark(log.end_offset)

    async def clean(self) -> None:
        """All that is due."""
        while True:
            await self.cleaner.until_idle()
            before = self.process.requests
            await self.cleaner.begin_due_passes()
            await self.cleaner.until_idle()
            if self.process.requests == before:
                return

    async def crash(self) -> None:
        """Die; what the next process needs of this one is only its lock."""
        for one in self.logs.directories:
            await self.logs.checkpoint_writer.until_written(one)
        await self.logs._maintenance.stop()
        self.logs.release()

    def checkpoint(self, directory: str) -> dict[tuple[str, int], int]:
        return read_offsets(self.disk, f"{directory}/{FIRST_DIRTY}")


@pytest.fixture
async def broker(tmp_path: Path) -> CleanedBroker:
    made = CleanedBroker(tmp_path)
    made.start()
    return made


def values(log: Log) -> dict[bytes, bytes | None]:
    """What a reader from the first offset has in the end."""
    found: dict[bytes, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20).data
        for _, record in read_all(data):
            value = record.value
            found[bytes(record.key or b"")] = None if value is None else bytes(value)
        offset = [header for _, header in iter_batches(data)][-1].end_offset
    return found


def home_of(log: Log) -> str:
    return log.directory.rpartition("/")[0]


def cleaned_names(log: Log) -> list[str]:
    return [one for one in RealDisk().listdir(log.directory) if one.endswith(".cleaned")]


async def test_a_table_becomes_as_small_as_its_keys_and_says_what_it_did(
    broker: CleanedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    log = broker.make()
    broker.fill(log)
    before, size_bytes, active = values(log), log.size_bytes, log.active_segment.base_offset
    with caplog.at_level(logging.INFO, "broker.log"):
        await broker.clean()
    assert values(log) == before
    assert log.size_bytes < size_bytes / 3
    assert log.cleaning.first_dirty_offset == active
    assert cleaned_names(log) == []
    assert "5 of" in caplog.text
    await broker.logs.checkpoint_writer.until_written(home_of(log))
    text = broker.disk.read_text(f"{home_of(log)}/{FIRST_DIRTY}")
    assert text == f"0\n1\nt 0 {active}\n"
    page = broker.metrics.text()
    assert 'logcleanermanager_dirtypercent{partition="0",topic="t"} 0.0' in page
    assert 'logcleanermanager_uncleanable{partition="0",topic="t"} 0.0' in page


async def test_a_start_goes_on_where_the_checkpoint_says(tmp_path: Path, broker: CleanedBroker) -> None:
    log = broker.make()
    broker.fill(log)
    await broker.clean()
    first_dirty = log.cleaning.first_dirty_offset
    await broker.logs.stop()
    again = CleanedBroker(tmp_path)
    again.start()
    found = again.logs.get("t", 0)
    assert found is not None
    assert found.cleaning.first_dirty_offset == first_dirty > 0
    found.advance_high_watermark(found.end_offset)
    await again.clean()
    assert again.process.requests == 0, "nothing is dirty"


async def test_without_work_the_child_is_asked_nothing(broker: CleanedBroker) -> None:
    broker.fill(broker.make())
    broker.fill(broker.make("plain", cleanup_policy="delete"))
    await broker.clean()
    asked = broker.process.requests
    await broker.clean()
    assert broker.process.requests == asked == 1


# --- results of another log ----------------------------------------------------------------------


def truncate(broker: CleanedBroker, log: Log) -> Awaitable[None]:
    truncation = log.begin_truncate_to(17, broker.clock.now_ms())
    return broker.logs.finish_truncation(log, truncation)


async def delete_records(broker: CleanedBroker, log: Log) -> None:
    log.delete_records_before(120)
    delete_old_segments(log, broker.disk, broker.clock.now_ms())


async def change_policy_and_back(broker: CleanedBroker, log: Log) -> None:
    log.reconfigure(broker.topic(cleanup_policy="delete"))
    log.reconfigure(broker.topic())


async def change_policy(broker: CleanedBroker, log: Log) -> None:
    log.reconfigure(broker.topic(cleanup_policy="delete"))


async def delete_topic(broker: CleanedBroker, log: Log) -> None:
    broker.logs.delete(log.topic, log.index)


CHANGES = [truncate, delete_records, change_policy_and_back, change_policy, delete_topic]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.__name__))
@pytest.mark.parametrize("report", [0, 1, 3])
async def test_a_log_that_changed_takes_nothing_over_from_its_pass(
    broker: CleanedBroker, change: Callable[[CleanedBroker, Log], Awaitable[None]], report: int
) -> None:
    """Whichever of its reports comes after the change. (What was committed and is cut off
    nevertheless is lost with what it had replaced.)"""
    log, plain = broker.make(), broker.make("plain", min_cleanable_dirty_ratio="1")
    broker.fill(log)
    broker.fill(plain)
    seen = 0

    async def before_report() -> None:
        nonlocal seen
        if seen == report:
            await change(broker, log)
            await change(broker, plain)
            segments.extend(id(one) for one in log.segments.all)
        seen += 1

    segments: list[int] = []
    broker.process.before_report = before_report
    await broker.cleaner.begin_due_passes()
    await broker.cleaner.until_idle()
    assert seen == report + 1, "the pass has ended with that report"
    assert log.cleaning.first_dirty_offset == 0
    if change is not delete_topic:
        assert [id(one) for one in log.segments.all] == segments
        assert change is truncate or values(log) == values(plain)
        assert cleaned_names(log) == []
    broker.process.before_report = None
    broker.clock.at_ms += 2_000
    await broker.clean()
    if change not in (delete_topic, truncate):
        assert values(log) == values(plain)


async def test_a_truncation_lowers_the_checkpoint_before_the_log_takes_appends(
    tmp_path: Path, broker: CleanedBroker
) -> None:
    log = broker.make()
    broker.fill(log)
    await broker.clean()
    await broker.logs.checkpoint_writer.until_written(home_of(log))
    assert broker.checkpoint(home_of(log))["t", 0] > 17
    truncation = log.begin_truncate_to(17, broker.clock.now_ms())
    finishing = asyncio.ensure_future(broker.logs.finish_truncation(log, truncation))
    while log.guard.is_blocked:
        await asyncio.sleep(0)
    on_disk = broker.checkpoint(home_of(log))
    await finishing
    assert on_disk.get(("t", 0), 0) <= log.end_offset <= 17
    assert log.cleaning.first_dirty_offset <= log.end_offset


async def test_a_process_that_died_in_a_truncation_does_not_trust_the_checkpoint(
    tmp_path: Path, broker: CleanedBroker
) -> None:
    """The file still says more than the log has; it is written again before the log takes
    appends."""
    log = broker.make()
    broker.fill(log)
    await broker.clean()
    await broker.logs.checkpoint_writer.until_written(home_of(log))
    log.begin_truncate_to(17, broker.clock.now_ms())
    await broker.crash()
    assert broker.checkpoint(home_of(log))["t", 0] > 17
    again = CleanedBroker(tmp_path)
    again.start()
    found = again.logs.get("t", 0)
    assert found is not None
    assert found.guard.is_blocked
    assert found.cleaning.first_dirty_offset <= found.end_offset <= 17
    while found.guard.is_blocked:
        await asyncio.sleep(0)
    assert again.checkpoint(home_of(found)).get(("t", 0), 0) <= found.end_offset


async def test_a_topic_made_anew_is_dirty_from_its_start_whenever_the_process_died(
    tmp_path: Path, broker: CleanedBroker
) -> None:
    """Also if the deleted one's line was still in the file."""
    log = broker.make()
    broker.fill(log)
    await broker.clean()
    await broker.logs.checkpoint_writer.until_written(home_of(log))
    for name in broker.disk.listdir(home_of(log)):
        if name.startswith("t-"):
            broker.disk.rename(f"{home_of(log)}/{name}", f"{home_of(log)}/t-0.{'0' * 32}-delete")
    await broker.crash()
    again = CleanedBroker(tmp_path)
    again.start()
    made = again.make()
    assert made.cleaning.first_dirty_offset == 0
    while made.guard.is_blocked:
        await asyncio.sleep(0)
    assert ("t", 0) not in again.checkpoint(home_of(log))


async def test_a_log_moved_to_another_directory_is_dirty_from_its_start(
    broker: CleanedBroker
) -> None:
    log = broker.make()
    broker.fill(log)
    await broker.clean()
    other = next(one for one in broker.logs.directories if one != home_of(log))
    future = broker.logs.future_logs.create(log, other)
    data = log.read(0, 1 << 20).data
    while True:
        future.append_as_follower(bytes(data), broker.clock.now_ms())
        if future.end_offset == log.end_offset:
            break
        data = log.read(future.end_offset, 1 << 20).data
    fresh = broker.logs.promote(log)
    await broker.logs.retire(log, fresh)
    for one in broker.logs.directories:
        await broker.logs.checkpoint_writer.until_written(one)
    assert fresh.cleaning.first_dirty_offset == 0
    assert broker.checkpoint(home_of(log)) == {}
    before = values(fresh)
    broker.logs.config = broker.config
    fresh.flush()
    await broker.clean()
    assert values(fresh) == before
    assert fresh.cleaning.first_dirty_offset > 0


# --- what cannot be cleaned ----------------------------------------------------------------------


def damage(log: Log) -> None:
    """One byte of the first segment's records."""
    path = Path(log.segments.first.path)
    data = bytearray(path.read_bytes())
    data[70] ^= 0xFF
    path.write_bytes(data)


async def marked(broker: CleanedBroker) -> tuple[Log, bytes]:
    """A log that a pass has found damaged, and its first segment as it was."""
    log = broker.make()
    broker.fill(log)
    sound = Path(log.segments.first.path).read_bytes()
    damage(log)
    await broker.clean()
    return log, sound


async def test_a_damaged_segment_marks_its_partition_and_stops_no_other(
    broker: CleanedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = broker.make("bad"), broker.make("good")
    broker.fill(bad)
    broker.fill(good)
    damage(bad)
    await broker.clean()
    assert good.cleaning.first_dirty_offset > 0
    assert bad.cleaning.first_dirty_offset == 0
    assert f"{bad.directory} cannot be cleaned" in caplog.text
    page = broker.metrics.text()
    assert 'logcleanermanager_uncleanable{partition="0",topic="bad"} 1.0' in page
    assert f'uncleanable_partitions_count{{log_directory="{home_of(bad)}"}} 1.0' in page
    assert f'uncleanable_bytes{{log_directory="{home_of(bad)}"}} {float(bad.size_bytes)}' in page
    asked = broker.process.requests
    await broker.clean()
    assert broker.process.requests == asked, "nothing has changed"


async def test_a_marked_partition_is_tried_again_after_a_change_of_its_segments(
    broker: CleanedBroker
) -> None:
    log, sound = await marked(broker)
    assert log.cleaning.first_dirty_offset == 0
    Path(log.segments.first.path).write_bytes(sound)
    broker.fill(log)
    await broker.clean()
    assert log.cleaning.first_dirty_offset > 0
    assert broker.cleaner.uncleanable.marked == {}


async def test_a_marked_partition_is_tried_again_after_a_change_of_its_settings(
    broker: CleanedBroker
) -> None:
    log, _ = await marked(broker)
    asked = broker.process.requests
    log.reconfigure(broker.topic(delete_retention_ms="77"))
    await broker.clean()
    assert broker.process.requests == asked + 1


WHY = re.compile(r'_uncleanableforms\{fault="([^"]*)",partition="0",reason="([^"]*)",topic="t"\} (.*)')


async def test_the_page_says_since_when_and_why_until_a_pass_over_it_has_ended_well(
    broker: CleanedBroker
) -> None:
    """Attempts that fail again change the reason, not since when."""
    log, sound = await marked(broker)
    broker.clock.at_ms += 7_000
    [(fault, reason, age_ms)] = WHY.findall(broker.metrics.text())
    assert (fault, float(age_ms)) == ("damaged", 7_000)
    assert log.segments.first.path in reason
    broker.process.fails_with = RequestFailed(FailureKind.BROKEN, "Traceback\n  f()\nKeyError: 1\n")
    broker.fill(log)
    await broker.clean()
    assert WHY.findall(broker.metrics.text()) == [("bug", "KeyError: 1", "7000.0")]
    Path(log.segments.first.path).write_bytes(sound)
    broker.process.gate, broker.process.fails_with = asyncio.Event(), None
    broker.fill(log)
    await broker.cleaner.begin_due_passes()
    await asyncio.sleep(0)
    assert broker.process.running == 1
    assert len(WHY.findall(broker.metrics.text())) == 1, "it is being tried, no more"
    broker.process.gate.set()
    await broker.clean()
    assert log.cleaning.first_dirty_offset > 0
    assert broker.cleaner.uncleanable.marked == {}
    assert WHY.findall(broker.metrics.text()) == []


async def test_a_file_that_the_disk_refuses_is_no_damage(broker: CleanedBroker) -> None:
    broker.fill(broker.make())
    broker.process.fails_with = RequestFailed(FailureKind.DISK, "x.log: permission denied")
    await broker.clean()
    assert [found[:2] for found in WHY.findall(broker.metrics.text())] == [
        ("unreadable", "x.log: permission denied")
    ]


@pytest.mark.parametrize("change", [delete_topic, change_policy], ids=lambda one: str(one.__name__))
async def test_the_mark_goes_with_the_topic_and_with_its_policy(
    broker: CleanedBroker, change: Callable[[CleanedBroker, Log], Awaitable[None]]
) -> None:
    log, _ = await marked(broker)
    assert len(WHY.findall(broker.metrics.text())) == 1
    await change(broker, log)
    await broker.clean()
    page = broker.metrics.text()
    assert WHY.findall(page) == []
    assert f'uncleanable_partitions_count{{log_directory="{home_of(log)}"}} 0.0' in page
    assert broker.cleaner.uncleanable.marked == {}


async def test_the_mark_goes_with_the_damaged_segments(broker: CleanedBroker) -> None:
    log, _ = await marked(broker)
    assert len(broker.cleaner.uncleanable.marked) == 1
    log.delete_records_before(log.active_segment.base_offset)
    delete_old_segments(log, broker.disk, broker.clock.now_ms())
    await broker.clean()
    assert broker.cleaner.uncleanable.marked == {}


async def test_a_full_disk_leaves_the_segments_says_so_and_is_tried_again_later(
    broker: CleanedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    log = broker.make()
    broker.fill(log)
    before = [one.base_offset for one in log.segments.all]
    broker.process.fails_with = RequestFailed(FailureKind.DISK_FULL, "no room")
    await broker.clean()
    assert [one.base_offset for one in log.segments.all] == before
    assert f"the disk of {home_of(log)} is full" in caplog.text
    assert broker.cleaner.uncleanable.marked == {}
    assert broker.failures == []
    broker.process.fails_with = None
    asked = broker.process.requests
    await broker.clean()
    assert broker.process.requests == asked
    broker.clock.at_ms += FULL_DISK_REST_MS
    await broker.clean()
    assert log.cleaning.first_dirty_offset > 0


async def test_a_disk_full_at_the_swap_leaves_the_segments(
    broker: CleanedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = broker.make()
    broker.fill(log)
    before = values(log)

    def full(path: str, text: str) -> None:
        raise DiskFull(f"{path}: no space left", 28)

    monkeypatch.setattr(broker.disk, "replace_text_durably", full)
    await broker.clean()
    assert values(log) == before
    assert "is full" in caplog.text
    assert broker.failures == []
    assert cleaned_names(log) == []


async def test_a_disk_broken_at_the_swap_takes_its_directory_offline(
    broker: CleanedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.make()
    broker.fill(log)

    def broken(path: str) -> None:
        raise DiskError(f"{path}: input/output error", 5)

    monkeypatch.setattr(broker.disk, "flush_directory", broken)
    await broker.clean()
    assert broker.failures == [log.directory]


async def test_a_child_that_died_is_no_fault_of_the_log(broker: CleanedBroker) -> None:
    log = broker.make()
    broker.fill(log)
    broker.process.fails_with = RequestFailed(FailureKind.DIED, "killed")
    await broker.clean()
    assert broker.cleaner.uncleanable.marked == {}
    assert "deadthreadcount 1.0" in broker.metrics.text()
    broker.process.fails_with = None
    broker.clock.at_ms += 2_000
    await broker.clean()
    assert log.cleaning.first_dirty_offset > 0
    assert "deadthreadcount 0.0" in broker.metrics.text()


@pytest.mark.parametrize(
    "said", [b"{}", b"no json", b'{"type":"CleanedGroup"}', b'{"type":"PassResult"}']
)
async def test_a_child_that_babbles_marks_the_partition(broker: CleanedBroker, said: bytes) -> None:
    log = broker.make()
    broker.fill(log)
    before = values(log)

    async def run(request: bytes) -> AsyncGenerator[bytes, None]:
        broker.process.requests += 1
        yield said

    broker.process.run = run  # type: ignore[method-assign]
    await broker.clean()
    marked = broker.cleaner.uncleanable.marked["t", 0]
    assert marked.fault is CleaningFault.BUG
    assert "cannot be read" in marked.reason
    assert values(log) == before


# --- which, and how many -------------------------------------------------------------------------


async def test_as_many_passes_run_as_there_are_threads_each_over_another_log(tmp_path: Path) -> None:
    broker = CleanedBroker(tmp_path, **{"log.cleaner.threads": "2"})
    broker.start()
    logs = [broker.make(name) for name in ("a", "b", "c")]
    for log in logs:
        broker.fill(log)
    broker.process.gate = asyncio.Event()
    await broker.cleaner.begin_due_passes()
    await asyncio.sleep(0)
    await broker.cleaner.begin_due_passes()
    assert broker.process.running == 2
    broker.process.gate.set()
    await broker.clean()
    assert broker.process.most_running == 2
    assert all(log.cleaning.first_dirty_offset > 0 for log in logs)


async def test_what_is_not_replicated_or_not_forced_is_not_cleaned(broker: CleanedBroker) -> None:
    log = broker.make()
    broker.fill(log)
    log.advance_high_watermark(120)
    await broker.clean()
    assert 0 < log.cleaning.first_dirty_offset <= 120
    other = broker.make("unforced")
    for number in range(40):
        record = Record(b"k", b"v%d" % number * 40, timestamp_ms=broker.clock.now_ms())
        other.append(build_batch([record]), leader_epoch=1, now_ms=broker.clock.now_ms())
    other.advance_high_watermark(other.end_offset)
    assert len(other.segments) > 2
    await broker.clean()
    assert other.cleaning.first_dirty_offset == 0


async def test_compact_and_delete_does_both(broker: CleanedBroker) -> None:
    log = broker.make(cleanup_policy="compact,delete", retention_ms="60000")
    broker.fill(log)
    await broker.clean()
    assert values(log) == {b"k%d" % key: b"v39" for key in range(5)}
    assert log.cleaning.first_dirty_offset > 0
    assert delete_old_segments(log, broker.disk, broker.clock.now_ms()) == []
    assert delete_old_segments(log, broker.disk, broker.clock.now_ms() + 61_000)
    assert log.log_start_offset == log.end_offset
    other = broker.make("kept", retention_ms="60000", retention_bytes="1")
    broker.fill(other)
    assert delete_old_segments(other, broker.disk, broker.clock.now_ms() + 61_000) == []


async def test_the_active_segment_of_a_quiet_log_is_rolled_after_segment_ms(
    broker: CleanedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.make(segment_ms="600000", internal_segment_bytes="1000000")
    broker.fill(log)
    written_ms = broker.clock.now_ms()
    monkeypatch.setattr(broker.disk, "modified_ms", lambda path: written_ms)
    await broker.clean()
    assert len(log.segments) == 1
    broker.clock.at_ms += 600_001
    await broker.clean()
    assert len(log.segments) == 2
    log.flush()
    await broker.clean()
    assert log.cleaning.first_dirty_offset == log.end_offset
    assert values(log) == {b"k%d" % key: b"v39" for key in range(5)}


async def test_old_records_copied_now_begin_no_segment_at_each_look(broker: CleanedBroker) -> None:
    """Their own time is long past, and the log is written to."""
    log = broker.make(segment_ms="600000", internal_segment_bytes="1000000")
    broker.clock.at_ms -= 86_400_000
    broker.fill(log)
    broker.clock.at_ms = RealClock().now_ms()
    await broker.clean()
    assert len(log.segments) == 1


async def test_a_coordinators_log_is_rolled_by_its_records_beyond_its_live_keys(
    broker: CleanedBroker
) -> None:
    own, other = broker.make("own", internal_segment_bytes="1000000000"), broker.make(
        "other", internal_segment_bytes="1000000000"
    )
    for log in (own, other):
        for _ in range(2):
            records = [Record(b"k%d" % n, b"v") for n in range(MOST_UNCLEANED_RECORDS // 2)]
            log.append(build_batch(records), leader_epoch=1, now_ms=broker.clock.now_ms())
    await broker.clean()
    assert len(own.segments) == 1
    broker.fill(own, rounds=1)
    broker.fill(other, rounds=1)
    await broker.clean()
    assert (len(own.segments), len(other.segments)) == (2, 1)
    own.flush()
    await broker.clean()
    assert own.cleaning.live_records == MOST_UNCLEANED_RECORDS // 2


def test_a_file_that_ends_early_is_damage_and_ends_the_reading(tmp_path: Path) -> None:
    """Its log was truncated while the child read it: that one read the end of the file for ever."""
    path = tmp_path / "segment.log"
    batch = bytes(build_batch([Record(b"k", b"v" * 100)]))
    for size in (0, 10, 61, len(batch) - 1, len(batch)):
        path.write_bytes(batch[:size])
        file = RealDisk().open(str(path))
        with pytest.raises(DamagedSegment, match="the file ends"):
            list(SegmentPieces(file, 0, 2 * len(batch), 4096))
        file.close()


async def test_a_consumer_gets_no_answer_of_batches_without_records_before_there_are_records(
    broker: CleanedBroker
) -> None:
    """librdkafka took a dozen of them for a record too large to fetch; a follower gets them all."""
    log = broker.make()
    broker.fill(log, rounds=200)
    await broker.clean()
    emptied = [s for s in log.segments.all if not list(read_all(s.read_bytes(0, s.size_bytes)))]
    assert len(emptied) > 12
    offset, answers = 0, 0
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, skips_empty=True).data
        assert list(read_all(data))
        offset, answers = [header for _, header in iter_batches(data)][-1].end_offset, answers + 1
    assert answers < len(log.segments)
    assert len(log.read(0, 1 << 20).data) == log.segments.first.size_bytes
    log.append(build_batch([Record(b"k", b"v")]), leader_epoch=1, now_ms=broker.clock.now_ms())
    end = emptied[-1].end_offset
    hidden = log.read(emptied[-1].base_offset, 1 << 20, upper_offset=end, skips_empty=True).data
    assert len(hidden) == emptied[-1].size_bytes, "nothing is behind it that may be shown"
