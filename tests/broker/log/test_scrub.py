"""The scrub reads segments for hours while their logs go on: whatever becomes of a log meanwhile
neither ends it nor counts as damage, and what is damaged is still named."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DiskError
from broker.disk.real import RealDisk, RealFile
from broker.log import audit, scrub
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.log.replacement import replace_segments
from broker.log.replacement_files import Span, write_cleaned
from broker.log.retention import delete_old_segments
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from tests.broker.log.test_replacement import drive
from tests.broker.log.test_verify import flip

NOW_MS = 1_760_000_000_000
TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
Batch = Callable[..., bytearray]


class StepDisk(RealDisk):
    """Calls ``between`` before each read that a worker makes, and works without threads."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] = lambda: None
        self.is_working = False

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return StepFile(super().open(path, create=create), self)

    async def run(self, function: Callable[..., Any], *arguments: Any, worker: str = "") -> Any:
        self.is_working = True
        try:
            return function(*arguments)
        finally:
            self.is_working = False
            await asyncio.sleep(0)


class StepFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, file: RealFile, disk: StepDisk) -> None:
        super().__init__(file.path, file._fd)
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        if self._disk.is_working:
            self._disk.is_working = False
            try:
                self._disk.between()
            finally:
                self._disk.is_working = True
        return super().read(position, size)


class ScrubbedLogs:
    """Two partitions of three closed segments each in two log directories, and what may become of
    the first."""

    def __init__(self, directory: str, batch: Batch) -> None:
        dirs = f"{directory}/a,{directory}/b"
        self.disk = StepDisk()
        config = BrokerConfig.from_mapping({"log.dirs": dirs, "node.id": "1"})
        self.manager = LogManager(config=config, disk=self.disk, clock=RealClock())
        self.manager.prepare()
        self.manager.load(lambda topic: TopicConfig())
        self._batch = batch
        self.log = self._create("t", TOPIC_ID, 40)
        self.other = self._create("u", OTHER_ID, 40)
        self.scrubber = scrub.LogScrubber(
            self.manager.logs, self.disk, RealClock(), bytes_per_second=1 << 40
        )

    def _create(self, topic: str, topic_id: bytes, size: int) -> Log:
        made = self.manager.create(topic, 0, topic_id, TopicConfig())
        self._fill(made, 16, size)
        made.flush()
        made.advance_high_watermark(made.end_offset)
        return made

    def _fill(self, log: Log, batches: int, size: int) -> None:
        for number in range(batches):
            if number % 4 == 0:
                log.roll(NOW_MS)
            log.append(self._batch(2, size=size), leader_epoch=0, now_ms=NOW_MS)

    # --- what may become of the log that is read ---------------------------------------------------

    def truncate(self) -> None:
        self.log.truncate_to(max(self.log.end_offset - 7, 0), NOW_MS)

    def truncate_to_the_first_segment(self) -> None:
        self.log.truncate_to(3, NOW_MS)

    def truncate_fully(self) -> None:
        self.log.truncate_fully_and_start_at(self.log.end_offset + 100, NOW_MS)

    def truncate_and_grow(self) -> None:
        self.log.truncate_to(1, NOW_MS)
        self._fill(self.log, 9, 23)

    def roll(self) -> None:
        self._fill(self.log, 2, 31)

    def delete_by_retention(self) -> None:
        self.log.advance_high_watermark(self.log.end_offset)
        self.log.delete_records_before(self.log.end_offset)
        for path in delete_old_segments(self.log, self.disk, NOW_MS):
            self.disk.remove(path)

    def replace(self) -> None:
        """The first two segments by one with the same batches."""
        log = self.log
        group = log.segments.all[:2]
        if len(log.segments) < 3 or not all(segment.size_bytes for segment in group):
            return
        log.flush()
        span = Span(group[0].base_offset, log.segments.all[2].base_offset)
        data = [segment.read_bytes(0, segment.size_bytes) for segment in group]
        batches = [d[at : at + h.size_bytes] for d in data for at, h in iter_batches(d)]
        write_cleaned(self.disk, log.directory, span, batches, [], 0)
        paths = drive(replace_segments(log, group, self.disk, log._files, RealClock(1)))
        for path in paths:
            self.disk.remove(path)

    def delete_topic(self) -> None:
        self.manager.delete("t", 0)
        for path in Path(self.log.directory).parent.glob("t-0.*-delete"):
            shutil.rmtree(path)

    def delete_and_create_again(self) -> None:
        self.delete_topic()
        self.log = self._create("t", OTHER_ID[::-1], 17)

    def move(self) -> None:
        """To the other log directory, in segments of its own."""
        current = self.log
        homes = self.manager.directories
        target = homes[1 - homes.index(current.directory.rpartition("/")[0])]
        future = self.manager.future_logs.create(current, target)
        start = current.log_start_offset
        if start:
            future.truncate_fully_and_start_at(start, NOW_MS)
        while future.end_offset < current.end_offset:
            data = current.read(future.end_offset, 400).data
            future.append_as_follower(bytes(data), NOW_MS)
            if future.end_offset % 3 == 0:
                future.roll(NOW_MS)
        self.log = self.manager.promote(current)
        current.release()
        shutil.rmtree(current.directory)

    def move_there_and_back(self) -> None:
        self.move()
        self.move()

    def lose_the_directory(self) -> None:
        home = self.log.directory.rpartition("/")[0]
        self.manager.handle_directory_failure(home, LogError(ErrorCode.KAFKA_STORAGE_ERROR))

    # ---

    def scrub(self) -> list[str]:
        """One round; what it logged."""
        with_lines: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: with_lines.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("broker.log")
        logger.addHandler(handler)
        try:
            asyncio.run(self.scrubber._round())
        finally:
            logger.removeHandler(handler)
        return [line for line in with_lines if "is damaged" in line or "cannot be" in line]

    def change_before_read(self, number: int, change: Callable[[], None]) -> None:
        left = number

        def between() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                change()

        self.disk.between = between


CHANGES = [
    ScrubbedLogs.truncate,
    ScrubbedLogs.truncate_to_the_first_segment,
    ScrubbedLogs.truncate_fully,
    ScrubbedLogs.truncate_and_grow,
    ScrubbedLogs.roll,
    ScrubbedLogs.delete_by_retention,
    ScrubbedLogs.replace,
    ScrubbedLogs.delete_topic,
    ScrubbedLogs.delete_and_create_again,
    ScrubbedLogs.move,
    ScrubbedLogs.move_there_and_back,
]
READS = 14
"""More than the scrub makes for one log in pieces of two batches."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several reads a segment, some of them within a piece."""
    monkeypatch.setattr(audit, "CHUNK_BYTES", 300)
    monkeypatch.setattr(scrub, "PIECE_BYTES", 400)


@pytest.fixture
def logs(fast_dir: str, batch: Batch) -> ScrubbedLogs:
    return ScrubbedLogs(fast_dir, batch)


def test_a_round_reads_every_closed_segment_and_no_other(logs: ScrubbedLogs) -> None:
    reads = 0

    def count() -> None:
        nonlocal reads
        reads += 1

    logs.disk.between = count
    assert logs.scrub() == []
    closed = [one.size_bytes for log in (logs.log, logs.other) for one in log.segments.all[:-1]]
    assert len(closed) == 6
    assert logs.scrubber._read_bytes == sum(closed)
    assert 2 * len(closed) < reads <= 2 * READS


@pytest.mark.parametrize("change", [*CHANGES, ScrubbedLogs.lose_the_directory])
def test_a_change_at_any_read_is_no_damage_and_hides_none(
    change: Callable[[ScrubbedLogs], None], fast_dir: str, batch: Batch
) -> None:
    """The log read first changes; in the log read after it, in the other directory, a bit is
    flipped."""
    for number in range(READS):
        logs = ScrubbedLogs(f"{fast_dir}/{number}", batch)
        rotten = Path(logs.other.segments.all[1].path)
        flip_in(rotten)
        logs.change_before_read(number, lambda made=logs: change(made))  # type: ignore[misc]
        lines = logs.scrub()
        assert [line.partition(" is damaged")[0] for line in lines] == [str(rotten)], number
        logs.manager.release()


def flip_in(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow,
          HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from(CHANGES)), min_size=2, max_size=5)
)
def test_changes_in_any_succession_are_no_damage(
    fast_dir: str, batch: Batch, steps: list[tuple[int, Callable[[ScrubbedLogs], None]]]
) -> None:
    """Two rounds with changes between their reads; a topic that is gone changes no more."""
    logs = ScrubbedLogs(f"{fast_dir}/drawn", batch)
    left = list(steps)
    wait = [left[0][0]]

    def between() -> None:
        wait[0] -= 1
        if left and wait[0] < 0:
            _, change = left.pop(0)
            if logs.manager.get("t", 0) is not None:
                change(logs)
            wait[0] = left[0][0] if left else 0

    logs.disk.between = between
    try:
        assert logs.scrub() == []
        assert logs.scrub() == []
    finally:
        logs.manager.release()
        shutil.rmtree(f"{fast_dir}/drawn")


@pytest.mark.parametrize("keep", [0, 30, 61, 200, -1])
def test_a_file_that_lost_its_end_is_damage(logs: ScrubbedLogs, keep: int) -> None:
    """Nothing in this process truncated it."""
    path = Path(logs.log.segments.all[1].path)
    path.write_bytes(path.read_bytes()[:keep])
    [line] = logs.scrub()
    assert line.startswith(f"{path} is damaged")
    assert "the file ends" in line


def test_a_file_that_is_missing_is_named(logs: ScrubbedLogs) -> None:
    path = Path(logs.log.segments.all[1].path)
    path.unlink()
    [line] = logs.scrub()
    assert line.startswith(f"{path} cannot be opened")


def test_a_device_that_refuses_is_named_and_the_other_segments_are_read(
    logs: ScrubbedLogs,
) -> None:
    def refuse() -> None:
        raise DiskError("input/output error", 5)

    logs.change_before_read(1, refuse)
    [line] = logs.scrub()
    assert line == f"{logs.log.segments.all[0].path} cannot be read: input/output error"
    rest = [one.size_bytes for log in (logs.log, logs.other) for one in log.segments.all[:-1]][1:]
    assert logs.scrubber._read_bytes >= sum(rest)


def test_damage_at_the_place_of_former_damage_is_logged_again(logs: ScrubbedLogs) -> None:
    """It was named once; the file was written again; another bit of it is flipped."""
    path = Path(logs.log.segments.all[1].path)
    whole = path.read_bytes()
    flip(logs.manager, 1, 0.5)
    assert [len(logs.scrub()), len(logs.scrub())] == [1, 0]
    assert len(logs.scrubber._known) == 1
    path.write_bytes(whole)
    assert logs.scrub() == []
    assert len(logs.scrubber._known) == 0
    flip(logs.manager, 1, 0.5)
    assert len(logs.scrub()) == 1
