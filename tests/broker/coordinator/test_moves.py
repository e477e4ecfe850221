"""Groups move with the leadership of their partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.coordinator.appender import OFFSETS_TOPIC, Appender
from broker.coordinator.effects import JoinRequest, JoinResult
from broker.coordinator.records import CommittedOffset
from broker.coordinator.service import CommitRequest, GroupCoordinator
from broker.coordinator.shard import GroupLimits
from broker.disk.real import RealDisk
from broker.log.manager import LogManager
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.server.subscribers import GroupSubscriber
from bus.errors import ErrorCode

pytestmark = pytest.mark.timeout(120)
DEADLINE_S = 60


class Stage:
    """One broker with one partition of offsets; its follower is played by the test."""

    def __init__(self, directory: str, commit_timeout_ms: int = 60_000) -> None:
        clock = RealClock(seed=1)
        config = BrokerConfig.from_mapping({"log.dirs": directory})
        self.logs = LogManager(config=config, disk=RealDisk(), clock=clock)
        self.logs.prepare()
        self.logs.load(lambda topic: TopicConfig())
        timer = Timer(clock)
        self.replicas = ReplicaManager(
            broker_id=1, log_manager=self.logs, clock=clock, timer=timer, metrics=Metrics()
        )
        self.groups = GroupCoordinator(
            appender=Appender(self.replicas, clock, commit_timeout_ms),
            timer=timer,
            clock=clock,
            limits=GroupLimits(1, 60_000, 60_000, 100, 1 << 40, 4096),
            partition_count=lambda: 1,
        )
        GroupSubscriber(self.replicas, self.groups)

    def metadata(self, *, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2)) -> Partition:
        return self.replicas.create_partition(
            OFFSETS_TOPIC, bytes(range(16)), 0, leader_id=leader, leader_epoch=epoch,
            partition_epoch=epoch, replicas=(1, 2), isr=isr, config=TopicConfig(),
        )  # fmt: skip

    def commit(self, offset: int) -> asyncio.Future[ErrorCode]:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        value = CommittedOffset(offset, -1, "", 0)
        self.groups.commit(
            CommitRequest("group", "", None, -1, [("topic", 0, value)]), done.set_result
        )
        return done

    def committed(self) -> int | None:
        found = self.groups.offsets_of("group").get(("topic", 0))
        return None if found is None else found.offset


def play(scene: Callable[[Stage], Awaitable[None]], commit_timeout_ms: int = 60_000) -> None:
    async def all_of_it() -> None:
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(prefix="databus-moves-", dir=base) as directory:
            stage = Stage(directory, commit_timeout_ms)
            try:
                await scene(stage)
            finally:
                await stage.groups.stop()
                await stage.replicas.stop()
                await stage.logs.stop()

    asyncio.run(all_of_it())


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def test_a_new_leader_shows_offsets_only_when_all_of_its_log_is_replicated() -> None:
    """What only it has could still be cut off, and a committed offset would go back."""

    async def scene(stage: Stage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        assert await stage.commit(5) is ErrorCode.NONE
        stage.metadata(leader=2, epoch=1)
        partition = stage.metadata(leader=1, epoch=2)
        partition.log.high_watermark = 0
        stage.metadata(leader=2, epoch=3)
        stage.metadata(leader=1, epoch=4)
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.groups.check_fetch("group", None, -1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.on_follower_fetch(2, 1)
        await until(lambda: stage.committed() == 5)

    play(scene)


def test_whoever_gives_a_partition_up_forgets_its_groups() -> None:
    """Waiting members hear NOT_COORDINATOR, and nothing of theirs is written any more."""

    async def scene(stage: Stage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        answers: list[JoinResult] = []
        stage.groups.join("group", join_request(answers.append))
        stage.metadata(leader=2, epoch=1)
        assert [answer.error for answer in answers] == [ErrorCode.NOT_COORDINATOR]
        assert stage.groups.groups() == []
        assert await stage.commit(1) is ErrorCode.NOT_COORDINATOR
        assert stage.replicas.get(OFFSETS_TOPIC, 0).log.end_offset == 0

    play(scene)


def join_request(token: Callable[[JoinResult], None]) -> JoinRequest:
    return JoinRequest(
        token=token, member_id="", group_instance_id=None, client_id="c", client_host="h",
        require_known_member_id=False, session_timeout_ms=20, rebalance_timeout_ms=60_000,
        protocol_type="consumer", protocols=(("range", b""),),
    )  # fmt: skip


def test_a_commit_that_took_too_long_counts_when_it_arrives_after_all() -> None:
    """Its record is in the log; the next coordinator would know it, so must this one."""

    async def scene(stage: Stage) -> None:
        partition = stage.metadata(leader=1, epoch=0)
        assert await stage.commit(7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.committed() is None
        partition.on_follower_fetch(2, 1)
        assert stage.committed() == 7

    play(scene, commit_timeout_ms=20)


def test_a_deposed_coordinator_does_not_take_its_late_records_in() -> None:
    """The append was never replicated; the new coordinator knows nothing of it."""

    async def scene(stage: Stage) -> None:
        stage.metadata(leader=1, epoch=0)
        waiting = stage.commit(7)
        stage.metadata(leader=2, epoch=1)
        assert await waiting is ErrorCode.NOT_COORDINATOR
        assert stage.committed() is None

    play(scene)


