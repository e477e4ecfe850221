"""Logs that are being made in another directory: their names, their place at the next start, how
they replace the log there is, and what stands when the process dies on the way."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DiskError
from broker.log.errors import LogError, storage_error
from broker.log.files import parse_directory
from broker.log.future_logs import MAX_PREFERRED_DIRS, FutureLogs, name_fits
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from tests.simulation.disk import Killed, ProcessDisk, SimDisk
from tests.simulation.loop import ProcessLife

NOW_MS = 1_760_000_000_000
TOPIC_ID = bytes(range(16))
BROKEN = storage_error(DiskError("input/output error"))
Batch = Callable[..., bytearray]


class FutureLogsHost:
    """A disk and one broker's logs on it, over several restarts."""

    def __init__(self) -> None:
        self.sim = SimDisk("m", random.Random(1), lambda: NOW_MS)
        self.disk = ProcessDisk(self.sim, ProcessLife("none"), random.Random(1))

    def start(self, directories: str = "/a,/b") -> LogManager:
        self.sim.locks.clear()
        self.disk = ProcessDisk(self.sim, ProcessLife("broker"), random.Random(1))
        config = BrokerConfig.from_mapping({"log.dirs": directories, "node.id": "1"})
        logs = LogManager(config=config, disk=self.disk, clock=RealClock())
        logs.prepare("cluster")
        logs.load(lambda topic: TopicConfig.of(logs.config, {}))
        return logs

    def names(self, directory: str) -> list[str]:
        return [name for name in self.disk.listdir(directory) if name.startswith("t-")]


@pytest.fixture
def machine() -> FutureLogsHost:
    return FutureLogsHost()


def make(logs: LogManager, directory: str = "/a") -> Log:
    logs.future_logs.prefer_dir(("t", 0), directory)
    return logs.create("t", 0, TOPIC_ID, TopicConfig.of(logs.config, {}))


def put(log: Log, batch: Batch, count: int = 1, epoch: int = 3) -> None:
    for _ in range(count):
        log.append(batch(2, size=100), leader_epoch=epoch, now_ms=NOW_MS)


def content(log: Log) -> bytes:
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        piece = bytes(log.read(offset, 1 << 20).data)
        found += piece
        offset = next_offset(piece)
    return found


def next_offset(data: bytes) -> int:
    return [header for _, header in iter_batches(data)][-1].end_offset


def copy(current: Log, future: Log) -> None:
    future.append_as_follower(content(current), NOW_MS)


def test_a_future_log_has_the_partitions_name_and_is_none_of_the_logs(machine: FutureLogsHost) -> None:
    """`<topic>-<partition>.<32 hex>-future`, with any topic name."""
    logs = machine.start()
    future = logs.future_logs.create(make(logs), "/b")
    assert re.fullmatch(r"/b/t-0\.[0-9a-f]{32}-future", future.directory)
    assert logs.logs() == [logs.get("t", 0)]
    assert logs.future_logs.get(("t", 0)) is future
    assert parse_directory(f"/b/a.b-c-12.{'0' * 32}-future") == ("a.b-c", 12)
    assert name_fits("x" * 213, 0)
    assert not name_fits("x" * 214, 0)


def test_a_future_log_is_taken_up_again_by_the_next_life(machine: FutureLogsHost, batch: Batch) -> None:
    """With its batches and its topic id; the log itself is where it was."""
    logs = machine.start()
    current = make(logs)
    put(current, batch, 3)
    copy(current, logs.future_logs.create(current, "/b"))
    again = machine.start()
    future = again.future_logs.get(("t", 0))
    assert future is not None
    assert (future.end_offset, future.topic_id) == (6, TOPIC_ID)
    assert parent_of(again.logs()[0]) == "/a"


def test_of_two_future_logs_the_longer_one_stays(machine: FutureLogsHost, batch: Batch) -> None:
    """One was being dropped when the machine lost its power."""
    logs = machine.start("/a,/b,/c")
    current = make(logs)
    put(current, batch)
    copy(current, logs.future_logs.create(current, "/c"))
    logs.future_logs.create(current, "/b")
    again = machine.start("/a,/b,/c")
    future = again.future_logs.get(("t", 0))
    assert future is not None
    assert parent_of(future) == "/c"
    assert [name.endswith("-delete") for name in machine.names("/b")] == [True]


def replace(logs: LogManager) -> Log:
    current = logs.get("t", 0)
    assert current is not None
    fresh = logs.promote(current)
    asyncio.run(logs.retire(current, fresh))
    return fresh


def test_a_replaced_log_keeps_producers_epochs_and_watermark(
    machine: FutureLogsHost, batch: Batch
) -> None:
    """A producer with several batches in flight and a leader that has written nothing yet must not
    notice that the log has moved."""
    logs = machine.start()
    current = make(logs)
    for sequence in (0, 2, 4):
        current.append(
            batch(2, producer_id=9, producer_epoch=0, base_sequence=sequence),
            leader_epoch=3, now_ms=NOW_MS,
        )  # fmt: skip
    current.advance_high_watermark(4)
    copy(current, logs.future_logs.create(current, "/b"))
    current.leader_epochs.assign(7, current.end_offset)
    fresh = replace(logs)
    assert logs.get("t", 0) is fresh
    assert (fresh.directory, fresh.high_watermark, fresh.end_offset) == ("/b/t-0", 4, 6)
    assert fresh.leader_epochs.entries == [(3, 0), (7, 6)]
    again = fresh.append(
        batch(2, producer_id=9, producer_epoch=0, base_sequence=0),
        leader_epoch=7, now_ms=NOW_MS,
    )  # fmt: skip
    assert again.duplicate
    assert machine.names("/b") == ["t-0"]
    (aside,) = machine.names("/a")
    assert re.fullmatch(r"t-0\.[0-9a-f]{32}-delete", aside)


def test_a_log_that_has_moved_rolls_with_the_producers_it_took_over(
    machine: FutureLogsHost, batch: Batch
) -> None:
    """After a restart the producers are known only from the snapshot of a roll."""
    logs = machine.start()
    current = make(logs)

    def send(log: Log, sequence: int) -> None:
        log.append(
            batch(1, producer_id=9, producer_epoch=0, base_sequence=sequence),
            leader_epoch=3, now_ms=NOW_MS,
        )  # fmt: skip

    send(current, 0)
    copy(current, logs.future_logs.create(current, "/b"))
    fresh = replace(logs)
    send(fresh, 1)
    fresh.roll(NOW_MS)
    fresh.flush()
    logs.checkpoints.write_recovery_points()
    (again,) = machine.start().logs()
    send(again, 2)
    assert again.end_offset == 3


def test_the_checkpoints_name_the_log_where_it_is_now(machine: FutureLogsHost, batch: Batch) -> None:
    """A recovery point left behind would be believed if the log came back later."""
    logs = machine.start()
    current = make(logs)
    put(current, batch, 2)
    current.flush()
    logs.checkpoints.write_recovery_points()
    copy(current, logs.future_logs.create(current, "/b"))
    replace(logs)
    assert machine.disk.read_text("/a/recovery-point-offset-checkpoint") == "0\n0\n"
    assert machine.disk.read_text("/b/recovery-point-offset-checkpoint") == "0\n1\nt 0 4\n"


def test_a_line_that_a_death_left_where_the_log_was_before_goes_at_the_next_start(
    machine: FutureLogsHost, batch: Batch
) -> None:
    """Of the recovery point and of the first dirty offset: the log may come back later."""
    logs = machine.start()
    current = make(logs)
    put(current, batch, 2)
    current.flush()
    copy(current, logs.future_logs.create(current, "/b"))
    replace(logs)
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        machine.disk.replace_text_durably(f"/a/{name}", "0\n1\nt 0 4\n")
    again = machine.start()

    async def start_and_stop() -> None:
        again.start()
        await again.checkpoint_writer.until_written("/a")
        found = machine.disk.read_text("/a/cleaner-offset-checkpoint")
        await again.stop()
        assert found == "0\n0\n"

    asyncio.run(start_and_stop())
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        assert machine.disk.read_text(f"/a/{name}") == "0\n0\n", name
    assert machine.disk.read_text("/b/recovery-point-offset-checkpoint") == "0\n1\nt 0 4\n"


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_death_at_any_step_of_a_replacement_leaves_one_good_log(
    machine: FutureLogsHost, batch: Batch, loses_power: bool
) -> None:
    """What was flushed is there; appending continues; the other copy is deleted or continues."""
    for step in range(200):
        machine = FutureLogsHost()
        logs = machine.start()
        current = make(logs)
        put(current, batch, 3)
        current.flush()
        before = content(current)
        copy(current, logs.future_logs.create(current, "/b"))
        machine.disk.die_after = step
        try:
            replace(logs)
            finished = True
        except Killed:
            finished = False
        if loses_power:
            machine.sim.lose_power()
        again = machine.start()
        (log,) = again.logs()
        assert content(log) == before, f"step {step}"
        assert log.topic_id == TOPIC_ID
        here = [n for d in ("/a", "/b") for n in machine.names(d) if not n.endswith("-delete")]
        future = again.future_logs.get(("t", 0))
        assert len(here) == 1 + (future is not None), f"step {step}: {here}"
        put(log, batch)
        assert log.end_offset == 8
        if finished:
            assert parent_of(log) == "/b"
            return
    pytest.fail("the replacement never came to its end")


def test_a_log_that_has_gone_on_wins_over_the_one_it_replaced(
    machine: FutureLogsHost, batch: Batch
) -> None:
    """The old directory failed while its log was put aside, and is back at the next start."""
    logs = machine.start("/b,/a")
    current = make(logs)
    put(current, batch)
    copy(current, logs.future_logs.create(current, "/b"))
    fresh = logs.promote(current)
    logs.handle_directory_failure("/a", BROKEN)
    put(fresh, batch, 2)
    again = machine.start("/b,/a")
    (log,) = again.logs()
    assert (log.directory, log.end_offset) == ("/b/t-0", 6)
    assert [name.endswith("-delete") for name in machine.names("/a")] == [True]


def test_a_future_log_goes_with_its_log_and_with_its_directory(machine: FutureLogsHost) -> None:
    """Deleted it is put aside; where its disk has failed it is left alone."""
    logs = machine.start()
    logs.future_logs.create(make(logs), "/b")
    logs.delete("t", 0)
    assert logs.future_logs.logs() == []
    assert [name.endswith("-delete") for name in machine.names("/b")] == [True]
    logs.future_logs.create(make(logs), "/b")
    logs.handle_directory_failure("/b", BROKEN)
    assert logs.future_logs.logs() == []
    assert len(logs.logs()) == 1
    assert not logs.is_usable("/b")


def test_a_wish_holds_once_and_not_for_a_directory_that_has_failed(machine: FutureLogsHost) -> None:
    """A partition that comes later is created in its preferred directory."""
    logs = machine.start()
    config = TopicConfig.of(logs.config, {})
    for index, directory in enumerate(("/b", "/b", "/a")):
        logs.future_logs.prefer_dir(("t", index), directory)
    assert parent_of(logs.create("t", 0, TOPIC_ID, config)) == "/b"
    assert logs.future_logs.preferred_dir(("t", 0)) is None
    logs.handle_directory_failure("/b", BROKEN)
    assert parent_of(logs.create("t", 1, TOPIC_ID, config)) == "/a"


def test_wishes_are_bounded() -> None:
    """The oldest is forgotten."""

    def never(*_words: object) -> Log:
        raise AssertionError

    futures = FutureLogs(FutureLogsHost().disk, RealClock(), never, lambda log: None)
    for index in range(MAX_PREFERRED_DIRS + 1):
        futures.prefer_dir(("t", index), "/a")
    assert futures.preferred_dir(("t", 0)) is None
    assert futures.preferred_dir(("t", MAX_PREFERRED_DIRS)) == "/a"


def test_a_log_that_ends_elsewhere_is_not_put_in_the_place_of_another(
    machine: FutureLogsHost, batch: Batch
) -> None:
    """The current one stays, and keeps what it has."""
    logs = machine.start()
    current = make(logs)
    logs.future_logs.create(current, "/b")
    put(current, batch)
    with pytest.raises(LogError) as caught:
        logs.promote(current)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get("t", 0) is current
