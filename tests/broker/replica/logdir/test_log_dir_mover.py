"""Replicas that move between the log directories of one broker, on a simulated disk."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DiskError
from broker.log.errors import LogError, storage_error
from broker.log.future_logs import name_fits
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.logdir import log_dir_mover
from broker.replica.logdir.move_steps import StepKind, next_step
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.replica.port import ClusterAccess
from bus.errors import ErrorCode
from bus.protocol.generated.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.record import Record
from tests.simulation.disk import Killed, ProcessDisk, SimDisk
from tests.simulation.loop import ProcessLife

NOW_MS = 1_760_000_000_000
ID = bytes(range(16))
DEADLINE_S = 60
CONFIG = TopicConfig(segment_bytes=2000)
BROKEN = storage_error(DiskError("input/output error"))


class MoverWorld:
    """One broker with the directories /a, /b and /c, over several restarts."""

    def __init__(self, **settings: str) -> None:
        self.machine = SimDisk("m", random.Random(1), lambda: NOW_MS)
        self.machine.flush_s = (0.0, 0.0)
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.told: list[Any] = []
        self.start()

    def start(self) -> None:
        self.machine.locks.clear()
        self.disk = ProcessDisk(self.machine, ProcessLife("broker"), random.Random(1))
        config = BrokerConfig.from_mapping({"log.dirs": "/a,/b,/c", "node.id": "1"} | self.settings)
        clock = RealClock()
        self.logs = LogManager(config=config, disk=self.disk, clock=clock)
        self.logs.prepare("cluster")
        self.logs.load(lambda topic: CONFIG)
        self.replicas = ReplicaManager(
            broker_id=1, log_manager=self.logs, clock=clock, timer=Timer(clock), metrics=Metrics()
        )
        self.moves = self.replicas.log_dir_mover

    def join(self) -> None:
        """A controller that believes that the replica of t-0 is in /a."""

        async def request(key: int, body: Any, *, timeout_ms: int) -> AssignReplicasToDirsResponse:
            self.told.append(body)
            return AssignReplicasToDirsResponse()

        where = SimpleNamespace(replicas=(1,), directories=(self.logs.directory_ids["/a"],))
        image = SimpleNamespace(
            topics={"t": SimpleNamespace(topic_id=ID, partitions=[where])}, brokers={}
        )
        cluster: Any = ClusterAccess(
            channel=lambda broker_id, name: None,  # type: ignore[arg-type,return-value]
            controllers=SimpleNamespace(request=request),
            broker_epoch=lambda: 5,
            image=lambda: image,  # type: ignore[arg-type,return-value]
        )
        self.replicas.attach_cluster(cluster)

    def partition(self, directory: str = "/a", leader: int = 1, epoch: int = 0) -> Partition:
        if self.logs.get("t", 0) is None:
            self.logs.future_logs.prefer_dir(("t", 0), directory)
        return self.replicas.create_partition(
            "t", ID, 0, leader_id=leader, leader_epoch=epoch, partition_epoch=epoch,
            replicas=(1,), isr=(1,), config=CONFIG,
        )  # fmt: skip

    def names(self, directory: str) -> list[str]:
        return [name for name in self.disk.listdir(directory) if name.startswith("t-")]


def batch(size: int = 100, count: int = 2) -> bytearray:
    record = Record(b"k", bytes(size), timestamp_ms=NOW_MS)
    return bytearray(build_batch([record] * count))


def put(partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        partition.append_as_leader(batch(), required_acks=1, now_ms=NOW_MS)


def content(log: Log) -> bytes:
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        piece = bytes(log.read(offset, 1 << 20).data)
        assert piece, f"{log.directory} has nothing at {offset}"
        found += piece
        offset = [header for _, header in iter_batches(piece)][-1].end_offset
    return found


async def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def done(world: MoverWorld) -> None:
    await until(lambda: not len(world.moves))


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch or two per turn, so that much can happen in between."""
    monkeypatch.setattr(log_dir_mover, "ITERATION_BYTES", 400)
    monkeypatch.setattr(log_dir_mover, "MAX_UNFLUSHED_BYTES", 0)


def test_a_replica_moves_with_all_it_has_and_the_controller_hears_of_it() -> None:
    """The old directory is put aside, the checkpoints and the metadata name the new one."""
    world = MoverWorld()

    async def story() -> None:
        world.join()
        partition = world.partition()
        put(partition, 100)
        before, watermark = content(partition.log), partition.high_watermark
        world.moves.alter("t", 0, "/b")
        assert partition.log.directory == "/a/t-0"
        await done(world)
        assert partition.log is world.logs.get("t", 0)
        assert (partition.log.directory, partition.high_watermark) == ("/b/t-0", watermark)
        assert content(partition.log) == before
        put(partition)
        await until(lambda: world.told)
        assert [d.id for d in world.told[0].directories] == [world.logs.directory_ids["/b"]]
        world.replicas.checkpoint_high_watermarks()
        assert world.disk.read_text("/b/replication-offset-checkpoint") == "0\n1\nt 0 202\n"
        await world.replicas.stop()

    run(story())
    assert world.names("/b") == ["t-0"]
    assert [name.endswith("-delete") for name in world.names("/a")] == [True]


def test_a_replica_moves_while_it_is_written_to(small_turns: None) -> None:
    """Records are appended at every step of the copy; none is missing or stored twice."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 50)
        world.moves.alter("t", 0, "/b")
        written = 50
        while len(world.moves):
            put(partition)
            written += 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert partition.log.directory == "/b/t-0"
        assert written > 60
        assert partition.log.end_offset == 2 * written
        headers = [h for _, h in iter_batches(content(partition.log))]
        assert [h.base_offset for h in headers] == list(range(0, 2 * written, 2))

    run(story())


def test_what_is_cut_off_the_log_is_cut_off_the_future_one(small_turns: None) -> None:
    """Found out at once, and by its epochs if it slept through it."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition(epoch=1)
        put(partition, 20)
        world.moves.alter("t", 0, "/b")
        future = world.logs.future_logs.get(("t", 0))
        assert future is not None
        await until(lambda: future.end_offset >= 20)
        cut = partition.log.begin_truncate_to(10, NOW_MS)
        durable = world.replicas.on_truncated(partition, 40, cut)
        assert future.end_offset == 10
        await durable
        world.partition(epoch=2)
        put(partition, 10)
        await until(lambda: future.end_offset >= 14)
        partition.log.truncate_to(6, NOW_MS)  # without notifying the mover
        world.partition(epoch=3)
        put(partition, 10)
        after = content(partition.log)
        await done(world)
        assert content(partition.log) == after
        assert partition.log.leader_epochs.entries == [(1, 0), (3, 6)]

    run(story())


def test_a_log_that_begins_later_now_is_copied_from_there(small_turns: None) -> None:
    """Records were deleted meanwhile, all that the future log had among them."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 30)
        partition.delete_records(5)
        world.moves.alter("t", 0, "/b")
        future = world.logs.future_logs.get(("t", 0))
        assert future is not None
        await until(lambda: future.end_offset)
        partition.delete_records(50)
        await done(world)
        assert (partition.log.log_start_offset, partition.log.end_offset) == (50, 60)
        assert next(h.base_offset for _, h in iter_batches(content(partition.log))) == 50

    run(story())


def test_a_second_wish_replaces_the_first_and_the_present_directory_ends_it(
    small_turns: None,
) -> None:
    """What had been copied for nothing is put aside."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 20)
        world.moves.alter("t", 0, "/b")
        await asyncio.sleep(0)
        world.moves.alter("t", 0, "/c")
        assert [name.endswith("-delete") for name in world.names("/b")] == [True]
        world.moves.alter("t", 0, "/c")
        assert len(world.moves) == 1
        world.moves.alter("t", 0, "/a")
        assert len(world.moves) == 0
        assert world.logs.future_logs.logs() == []
        world.moves.alter("t", 0, "/c")
        await done(world)
        assert partition.log.directory == "/c/t-0"
        world.moves.alter("t", 0, "/a")
        await done(world)
        assert partition.log.directory == "/a/t-0"
        assert partition.log.end_offset == 40

    run(story())


def test_what_cannot_be_is_refused_in_kafkas_words() -> None:
    """And a partition that is not here is created in the preferred directory when it comes."""
    world = MoverWorld(cordoned_log_dirs="/c")

    def refused(topic: str, directory: str) -> ErrorCode:
        with pytest.raises(LogError) as caught:
            world.moves.alter(topic, 0, directory)
        return caught.value.code

    async def story() -> None:
        assert not name_fits("x" * 240, 0)
        assert refused("x" * 240, "/b") is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused("t", "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert refused("t", "/c") is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert refused("t", "/b") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = world.replicas.create_partition(
            "t", ID, 0, leader_id=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,),
            config=CONFIG,
        )  # fmt: skip
        assert parent_of(partition.log) == "/b"
        world.replicas.take_offline("/a", BROKEN)
        assert refused("t", "/a") is ErrorCode.KAFKA_STORAGE_ERROR
        world.replicas.take_offline("/b", BROKEN)
        assert refused("t", "/b") is ErrorCode.KAFKA_STORAGE_ERROR

    run(story())


def test_no_future_log_is_made_while_a_directory_is_offline() -> None:
    """It may hold one of the same partition."""
    world = MoverWorld()

    async def story() -> None:
        put(world.partition())
        world.replicas.take_offline("/c", BROKEN)
        with pytest.raises(LogError) as caught:
            world.moves.alter("t", 0, "/b")
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    run(story())


def test_a_log_that_was_found_at_the_start_is_not_begun_anew_where_another_directory_failed() -> None:
    """Found by the simulation: the disk refused one partition of the first request after a start.
    Another one of that directory was recreated beside it, empty, and led what it had lost."""
    world = MoverWorld()

    async def story() -> None:
        put(world.partition())
        world.start()
        assert world.logs.get("t", 0) is not None
        world.replicas.take_offline("/a", BROKEN)
        with pytest.raises(LogError) as caught:
            world.partition("/b", epoch=1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.replicas.find("t", 0) is None

    run(story())


@pytest.mark.parametrize("failing", ["/a", "/b"])
def test_a_failed_directory_ends_the_move(small_turns: None, failing: str) -> None:
    """A failed target affects nothing else; a failed source takes its partitions offline."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 20)
        world.moves.alter("t", 0, "/b")
        await asyncio.sleep(0)
        world.replicas.take_offline(failing, BROKEN)
        assert len(world.moves) == 0
        assert (world.replicas.find("t", 0) is None) is (failing == "/a")
        if failing == "/b":
            put(partition)
            assert partition.log.end_offset == 42

    run(story())


def test_errors_of_the_targets_disk_leave_the_replica_where_it_is(
    small_turns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full one only ends the move; one that fails is taken offline."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 20)
        world.machine.fill_up(2500)
        world.moves.alter("t", 0, "/b")
        await done(world)
        assert not world.replicas.offline_dirs
        assert world.logs.future_logs.logs() == []
        world.machine.capacity_bytes = 1 << 30
        world.moves.alter("t", 0, "/b")
        rename = world.disk.rename

        def broken(source: str, target: str) -> None:
            if target == "/b/t-0":
                raise DiskError("input/output error", 5)
            rename(source, target)

        monkeypatch.setattr(world.disk, "rename", broken)
        await done(world)
        assert list(world.replicas.offline_dirs) == [world.logs.directory_ids["/b"]]
        assert partition.log.directory == "/a/t-0"
        put(partition)
        assert partition.log.end_offset == 42

    run(story())


def test_an_old_directory_that_fails_at_the_last_step_does_not_undo_the_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes offline; the replica is served from the new one."""
    world = MoverWorld()

    async def story() -> None:
        partition = world.partition()
        put(partition, 5)
        rename = world.disk.rename

        def broken(source: str, target: str) -> None:
            if source == "/a/t-0":
                raise DiskError("input/output error", 5)
            rename(source, target)

        monkeypatch.setattr(world.disk, "rename", broken)
        world.moves.alter("t", 0, "/b")
        await done(world)
        assert world.replicas.offline_dirs == (world.logs.directory_ids["/a"],)
        assert world.replicas.get("t", 0) is partition
        put(partition)
        assert (partition.log.directory, partition.log.end_offset) == ("/b/t-0", 12)

    run(story())


def test_a_deleted_partition_takes_its_future_log_with_it(small_turns: None) -> None:
    """After a restart nothing of either is found."""
    world = MoverWorld()

    async def story() -> None:
        put(world.partition(), 20)
        world.moves.alter("t", 0, "/b")
        await asyncio.sleep(0)
        world.replicas.delete_partition("t", 0)
        assert len(world.moves) == 0

    run(story())
    world.start()
    assert world.logs.logs() == world.logs.future_logs.logs() == []


def test_a_throttle_holds_the_copy_back(small_turns: None) -> None:
    """At most so much per second, however long it takes."""
    world = MoverWorld(**{"replica.alter.log.dirs.io.max.bytes.per.second": "500"})

    async def story() -> None:
        put(world.partition(), 200)
        world.moves.alter("t", 0, "/b")
        future = world.logs.future_logs.get(("t", 0))
        assert future is not None
        await until(lambda: world.replicas.replication_quotas.log_dir_moves.is_exceeded(
            world.replicas.monotonic_ms()))  # fmt: skip
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 0 < future.size_bytes < 8000 < world.logs.logs()[0].size_bytes
        world.replicas.replication_quotas.log_dir_moves.bytes_per_second = 1 << 40
        await done(world)
        await world.replicas.stop()

    run(story())


def test_a_stopped_broker_goes_on_where_it_was(small_turns: None) -> None:
    """Closed cleanly, and the copy does not begin again."""
    world = MoverWorld()

    async def begin() -> None:
        put(world.partition(), 40)
        world.moves.alter("t", 0, "/b")
        future = world.logs.future_logs.get(("t", 0))
        assert future is not None
        await until(lambda: future.end_offset > 20)
        await world.replicas.stop()
        await world.logs.stop(5)

    async def go_on() -> None:
        future = world.logs.future_logs.get(("t", 0))
        assert future is not None
        assert 20 < future.end_offset < 80
        partition = world.partition()
        await done(world)
        assert (partition.log.directory, partition.log.end_offset) == ("/b/t-0", 80)

    run(begin())
    world.start()
    run(go_on())


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_a_death_at_any_moment_of_a_move_loses_nothing(
    small_turns: None, part: int, loses_power: bool
) -> None:
    """At every operation of the disk, also while it is written to: the next life has the log once,
    and the move goes on to its end."""
    for step in range(part, 400, 4):
        world = MoverWorld()
        flushed, finished = die_in_a_move(world, step)
        if loses_power:
            world.machine.lose_power()
        world.start()
        run(next_life(world, flushed, loses_power))
        if finished:
            return
    pytest.fail("the move never came to its end")


def die_in_a_move(world: MoverWorld, step: int) -> tuple[bytes, bool]:
    """What must not be lost: what was flushed, or with the power on all that was written."""
    safe = bytearray()

    async def story() -> None:
        partition = world.partition()
        put(partition, 12)
        partition.log.flush()
        safe.extend(content(partition.log))
        world.disk.die_after = step
        world.moves.alter("t", 0, "/b")
        assert world.moves._task.task is not None
        await world.moves._task.task

    try:
        asyncio.run(story())
    except Killed:
        return bytes(safe), False
    return bytes(safe), True


async def next_life(world: MoverWorld, before: bytes, loses_power: bool) -> None:
    (log,) = world.logs.logs()
    assert content(log) == before
    partition = world.partition()
    put(partition, 2)
    world.moves.alter("t", 0, "/b")
    await done(world)
    assert partition.log.directory == "/b/t-0"
    assert content(partition.log).startswith(before)
    assert partition.log.end_offset == 28
    rest = [n for d in ("/a", "/b", "/c") for n in world.names(d) if not n.endswith("-delete")]
    assert rest == ["t-0"]


# --- what comes next (pure) ----------------------------------------------------------------------


def log_of(*epochs: tuple[int, int], start: int = 0, end: int) -> Any:
    """A log as `next_step` sees it: epochs with their first offsets."""
    world = MoverWorld()
    log = world.logs.create("t", 0, ID, CONFIG)
    for epoch, first in epochs:
        log.leader_epochs.assign(epoch, first)
    log.log_start_offset, log.end_offset = start, end
    return log


def test_the_next_step_of_a_future_log() -> None:
    """Truncate what differs, restart after a gap, copy what is missing, replace what is equal."""
    current = log_of((1, 0), (4, 30), end=50)
    cases = {
        (StepKind.COPY, 0): log_of(end=0),
        (StepKind.COPY, 20): log_of((1, 0), end=20),
        (StepKind.COPY, 40): log_of((1, 0), (4, 30), end=40),
        (StepKind.REPLACE, 50): log_of((1, 0), (4, 30), end=50),
        (StepKind.TRUNCATE, 30): log_of((1, 0), end=35),
        (StepKind.TRUNCATE, 28): log_of((1, 0), (2, 28), end=35),
        (StepKind.TRUNCATE, 45): log_of((1, 0), (4, 30), (5, 45), end=48),
        (StepKind.TRUNCATE, 50): log_of((1, 0), (4, 30), end=60),
    }
    for expected, future in cases.items():
        assert next_step(current, future) == expected
    assert next_step(log_of((4, 30), start=30, end=50), log_of((1, 0), end=10)) == (
        StepKind.RESTART, 30,
    )  # fmt: skip
    assert next_step(log_of(start=80, end=80), log_of((1, 0), end=50)) == (StepKind.TRUNCATE, 0)
    assert next_step(log_of(start=80, end=80), log_of(end=0)) == (StepKind.RESTART, 80)
    assert next_step(log_of(end=0), log_of((1, 0), end=50)) == (StepKind.TRUNCATE, 0)
