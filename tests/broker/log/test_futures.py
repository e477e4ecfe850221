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
from broker.log.futures import MAX_WISHES, Futures, name_fits
from broker.log.log import Log
from broker.log.manager import LogManager, parent_of
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from tests.simulation.disk import Killed, ProcessDisk, SimDisk
from tests.simulation.loop import Life

NOW_MS = 1_760_000_000_000
TOPIC_ID = bytes(range(16))
BROKEN = storage_error(DiskError("input/output error"))
Batch = Callable[..., bytearray]


class Machine:
    """A disk, and one broker's logs on it, life after life."""

    def __init__(self) -> None:
        self.sim = SimDisk("m", random.Random(1), lambda: NOW_MS)
        self.disk = ProcessDisk(self.sim, Life("none"), random.Random(1))

    def start(self, directories: str = "/a,/b") -> LogManager:
        self.sim.locks.clear()
        self.disk = ProcessDisk(self.sim, Life("broker"), random.Random(1))
        config = BrokerConfig.from_mapping({"log.dirs": directories, "node.id": "1"})
        logs = LogManager(config=config, disk=self.disk, clock=RealClock())
        logs.prepare("cluster")
        logs.load(lambda topic: TopicConfig.of(logs.config, {}))
        return logs

    def names(self, directory: str) -> list[str]:
        return [name for name in self.disk.listdir(directory) if name.startswith("t-")]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def make(logs: LogManager, directory: str = "/a") -> Log:
    logs.futures.wish(("t", 0), directory)
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


def test_a_future_log_has_the_partitions_name_and_is_none_of_the_logs(machine: Machine) -> None:
    """`<topic>-<partition>.<32 hex>-future`, whatever the topic is called."""
    logs = machine.start()
    future = logs.futures.make(make(logs), "/b")
    assert re.fullmatch(r"/b/t-0\.[0-9a-f]{32}-future", future.directory)
    assert logs.logs() == [logs.get("t", 0)]
    assert logs.futures.get(("t", 0)) is future
    assert parse_directory(f"/b/a.b-c-12.{'0' * 32}-future") == ("a.b-c", 12)
    assert name_fits("x" * 213, 0)
    assert not name_fits("x" * 214, 0)


def test_a_future_log_is_taken_up_again_by_the_next_life(machine: Machine, batch: Batch) -> None:
    """With its batches and its topic id; the log itself is where it was."""
    logs = machine.start()
    current = make(logs)
    put(current, batch, 3)
    copy(current, logs.futures.make(current, "/b"))
    again = machine.start()
    future = again.futures.get(("t", 0))
    assert future is not None
    assert (future.end_offset, future.topic_id) == (6, TOPIC_ID)
    assert parent_of(again.logs()[0]) == "/a"


def test_of_two_future_logs_the_longer_one_stays(machine: Machine, batch: Batch) -> None:
    """One was being dropped when the machine lost its power."""
    logs = machine.start("/a,/b,/c")
    current = make(logs)
    put(current, batch)
    copy(current, logs.futures.make(current, "/c"))
    logs.futures.make(current, "/b")
    again = machine.start("/a,/b,/c")
    future = again.futures.get(("t", 0))
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
    machine: Machine, batch: Batch
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
    copy(current, logs.futures.make(current, "/b"))
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
    machine: Machine, batch: Batch
) -> None:
    """The snapshot of a roll is what the next life knows of them."""
    logs = machine.start()
    current = make(logs)

    def send(log: Log, sequence: int) -> None:
        log.append(
            batch(1, producer_id=9, producer_epoch=0, base_sequence=sequence),
            leader_epoch=3, now_ms=NOW_MS,
        )  # fmt: skip

    send(current, 0)
    copy(current, logs.futures.make(current, "/b"))
    fresh = replace(logs)
    send(fresh, 1)
    fresh.roll(NOW_MS)
    fresh.flush()
    logs.checkpoint_recovery_points()
    (again,) = machine.start().logs()
    send(again, 2)
    assert again.end_offset == 3


def test_the_checkpoints_name_the_log_where_it_is_now(machine: Machine, batch: Batch) -> None:
    """A recovery point left behind would be believed if the log came back later."""
    logs = machine.start()
    current = make(logs)
    put(current, batch, 2)
    current.flush()
    logs.checkpoint_recovery_points()
    copy(current, logs.futures.make(current, "/b"))
    replace(logs)
    assert machine.disk.read_text("/a/recovery-point-offset-checkpoint") == "0\n0\n"
    assert machine.disk.read_text("/b/recovery-point-offset-checkpoint") == "0\n1\nt 0 4\n"


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_death_at_any_step_of_a_replacement_leaves_one_good_log(
    machine: Machine, batch: Batch, loses_power: bool
) -> None:
    """Whatever was flushed is there; appending goes on; the other copy goes away or goes on."""
    for step in range(200):
        machine = Machine()
        logs = machine.start()
        current = make(logs)
        put(current, batch, 3)
        current.flush()
        before = content(current)
        copy(current, logs.futures.make(current, "/b"))
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
        future = again.futures.get(("t", 0))
        assert len(here) == 1 + (future is not None), f"step {step}: {here}"
        put(log, batch)
        assert log.end_offset == 8
        if finished:
            assert parent_of(log) == "/b"
            return
    pytest.fail("the replacement never came to its end")


def test_a_log_that_has_gone_on_wins_over_the_one_it_replaced(
    machine: Machine, batch: Batch
) -> None:
    """The old directory failed while its log was put aside, and is back at the next start."""
    logs = machine.start("/b,/a")
    current = make(logs)
    put(current, batch)
    copy(current, logs.futures.make(current, "/b"))
    fresh = logs.promote(current)
    logs.abandon("/a", BROKEN)
    put(fresh, batch, 2)
    again = machine.start("/b,/a")
    (log,) = again.logs()
    assert (log.directory, log.end_offset) == ("/b/t-0", 6)
    assert [name.endswith("-delete") for name in machine.names("/a")] == [True]


def test_a_future_log_goes_with_its_log_and_with_its_directory(machine: Machine) -> None:
    """Deleted it is put aside; where its disk has failed it is left alone."""
    logs = machine.start()
    logs.futures.make(make(logs), "/b")
    logs.delete("t", 0)
    assert logs.futures.logs() == []
    assert [name.endswith("-delete") for name in machine.names("/b")] == [True]
    logs.futures.make(make(logs), "/b")
    logs.abandon("/b", BROKEN)
    assert logs.futures.logs() == []
    assert len(logs.logs()) == 1
    assert not logs.is_usable("/b")


def test_a_wish_holds_once_and_not_for_a_directory_that_has_failed(machine: Machine) -> None:
    """A partition that comes later is made where it was wished."""
    logs = machine.start()
    config = TopicConfig.of(logs.config, {})
    for index, directory in enumerate(("/b", "/b", "/a")):
        logs.futures.wish(("t", index), directory)
    assert parent_of(logs.create("t", 0, TOPIC_ID, config)) == "/b"
    assert logs.futures.wished(("t", 0)) is None
    logs.abandon("/b", BROKEN)
    assert parent_of(logs.create("t", 1, TOPIC_ID, config)) == "/a"


def test_wishes_are_bounded() -> None:
    """The oldest is forgotten."""

    def never(*_words: object) -> Log:
        raise AssertionError

    futures = Futures(Machine().disk, RealClock(), never, lambda log: None)
    for index in range(MAX_WISHES + 1):
        futures.wish(("t", index), "/a")
    assert futures.wished(("t", 0)) is None
    assert futures.wished(("t", MAX_WISHES)) == "/a"


def test_a_log_that_ends_elsewhere_is_not_put_in_the_place_of_another(
    machine: Machine, batch: Batch
) -> None:
    """The current one stays, and keeps what it has."""
    logs = machine.start()
    current = make(logs)
    logs.futures.make(current, "/b")
    put(current, batch)
    with pytest.raises(LogError) as caught:
        logs.promote(current)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get("t", 0) is current
