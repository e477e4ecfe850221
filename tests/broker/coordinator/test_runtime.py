"""Groups move with the leadership of their partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.coordinator import runtime
from broker.coordinator.coordinators import Coordinators
from broker.coordinator.group.effects import (
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.offsets import CommitRequest
from broker.coordinator.group.records import (
    OFFSETS,
    OFFSETS_TOPIC,
    CommittedOffset,
    CoordinatorRecord,
)
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.group.shard import GroupLimits
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.partition_writer import PartitionWriter
from broker.log.errors import LogError
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.partition import Partition
from broker.server.subscribers import CoordinatorSubscriber
from bus.errors import ErrorCode
from tests.broker.one_broker import opened_logs, replicas_of

pytestmark = pytest.mark.timeout(120)
DEADLINE_S = 60


class CoordinatorStage:
    """One broker with one partition of offsets; its follower is played by the test."""

    def __init__(
        self, directory: str, commit_timeout_ms: int = 60_000, rebalance_delay_ms: int = 60_000
    ) -> None:
        clock = RealClock(seed=1)
        self.metrics = Metrics()
        self.logs = opened_logs(directory, clock)
        timer = Timer(clock)
        self.replicas = replicas_of(self.logs, clock, timer, self.metrics)
        self.appender = PartitionWriter(self.replicas, clock, OFFSETS, commit_timeout_ms)
        self.groups = GroupCoordinator(
            writer=self.appender,
            timer=timer,
            clock=clock,
            limits=GroupLimits(1, 60_000, rebalance_delay_ms, 100, 1 << 40, 4096),
            partition_count=lambda: 1,
        )
        CoordinatorSubscriber(self.replicas, Coordinators(self.groups))

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


def play(
    scene: Callable[[CoordinatorStage], Awaitable[None]],
    commit_timeout_ms: int = 60_000,
    rebalance_delay_ms: int = 60_000,
) -> None:
    async def all_of_it() -> None:
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(prefix="databus-moves-", dir=base) as directory:
            stage = CoordinatorStage(directory, commit_timeout_ms, rebalance_delay_ms)
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

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        assert await stage.commit(5) is ErrorCode.NONE
        written = stage.metrics.meter(
            "BrokerTopicMetrics", "MessagesInPerSec", topic=OFFSETS_TOPIC
        )
        assert written.count == 1, "what a coordinator appends is counted"
        stage.metadata(leader=2, epoch=1)
        partition = stage.metadata(leader=1, epoch=2)
        partition.log.high_watermark = 0
        stage.metadata(leader=2, epoch=3)
        stage.metadata(leader=1, epoch=4)
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.groups.check_fetch("group") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.on_follower_fetch(2, 1)
        await until(lambda: stage.committed() == 5)

    play(scene)


def test_whoever_gives_a_partition_up_forgets_its_groups() -> None:
    """Waiting members get NOT_COORDINATOR, and nothing is written for them afterwards."""

    async def scene(stage: CoordinatorStage) -> None:
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
        reply=token, member_id="", group_instance_id=None, client_id="c", client_host="h",
        require_known_member_id=False, session_timeout_ms=20, rebalance_timeout_ms=60_000,
        protocol_type="consumer", protocols=(("range", b""),),
    )  # fmt: skip


def test_a_commit_that_took_too_long_counts_when_it_arrives_after_all() -> None:
    """Its record is in the log; the next coordinator would know it, so must this one."""

    async def scene(stage: CoordinatorStage) -> None:
        partition = stage.metadata(leader=1, epoch=0)
        assert await stage.commit(7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.committed() is None
        partition.on_follower_fetch(2, 1)
        assert stage.committed() == 7

    play(scene, commit_timeout_ms=20)


def test_a_deposed_coordinator_does_not_take_its_late_records_in() -> None:
    """The append was never replicated; the new coordinator knows nothing of it."""

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0)
        waiting = stage.commit(7)
        stage.metadata(leader=2, epoch=1)
        assert await waiting is ErrorCode.NOT_COORDINATOR
        assert stage.committed() is None

    play(scene)


class Asked:
    """Requests of several kinds, and how often each was answered."""

    def __init__(self, stage: CoordinatorStage) -> None:
        self._stage = stage
        self.answers: dict[int, list[ErrorCode]] = {}
        self.joined: list[JoinResult] = []

    def _token(self) -> Callable[[JoinResult | SyncResult], None]:
        answers = self.answers.setdefault(len(self.answers), [])

        def answered(result: JoinResult | SyncResult) -> None:
            answers.append(result.error)
            if isinstance(result, JoinResult) and not result.error:
                self.joined.append(result)

        return answered

    def join(self) -> None:
        fresh = replace(join_request(self._token()), fresh_member_id=f"m-{len(self.answers)}")
        self._stage.groups.join("group", fresh)

    def rejoin(self, dice: random.Random) -> None:
        if self.joined:
            member_id = dice.choice(self.joined).member_id
            again = replace(join_request(self._token()), member_id=member_id)
            self._stage.groups.join("group", again)

    def sync(self, dice: random.Random) -> None:
        if self.joined:
            mine = dice.choice(self.joined)
            given = {member.member_id: b"a" for member in mine.members}
            self._stage.groups.sync(
                "group",
                SyncRequest(
                    mine.member_id, None, mine.generation, self._token(), assignments=given
                ),
            )

    def commit(self, dice: random.Random) -> None:
        answers = self.answers.setdefault(len(self.answers), [])
        member_id, generation = "", -1
        if self.joined and dice.random() < 0.7:
            mine = dice.choice(self.joined)
            member_id, generation = mine.member_id, mine.generation
        offsets = [("topic", 0, CommittedOffset(1, -1, "", 0))]
        self._stage.groups.commit(
            CommitRequest("group", member_id, None, generation, offsets), answers.append
        )

    def any_of_them(self, dice: random.Random) -> None:
        kind = dice.choice(("join", "rejoin", "sync", "sync", "commit"))
        if kind == "join":
            self.join()
        else:
            getattr(self, kind)(dice)


@pytest.mark.parametrize("end", ["resign", "stop"])
@pytest.mark.parametrize("seed", range(8))
def test_every_request_is_answered_once_when_the_coordinator_goes(seed: int, end: str) -> None:
    """Requests that wait for members, for an assignment or for the log: a client must not hang."""
    dice = random.Random(seed)

    async def scene(stage: CoordinatorStage) -> None:
        partition = stage.metadata(leader=1, epoch=0, isr=(1, 2))
        asked, followed = Asked(stage), 0
        for _ in range(dice.randrange(3, 30)):
            asked.any_of_them(dice)
            if dice.random() < 0.5:  # the follower has taken some of it
                followed = dice.randint(followed, partition.log.end_offset)
                partition.on_follower_fetch(2, followed)
            if dice.random() < 0.3:
                await asyncio.sleep(0.002)  # the first join phase ends
        if end == "stop":
            await stage.groups.stop()
        else:
            stage.metadata(leader=2, epoch=1)
        assert all(len(answers) == 1 for answers in asked.answers.values()), asked.answers
        asked.join()
        assert asked.answers[len(asked.answers) - 1] == [ErrorCode.NOT_COORDINATOR]

    play(scene, rebalance_delay_ms=1)


def test_a_partition_that_cannot_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members wait while it is loaded. Regression: after a failure they waited for ever."""
    monkeypatch.setattr(runtime, "LOAD_RETRY_S", 0.01)

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        assert await stage.commit(5) is ErrorCode.NONE
        stage.metadata(leader=2, epoch=1)
        appender, failures = stage.appender, [1]
        read_newest = appender.read_newest

        def failing(
            index: int, transactions: OpenTransactions
        ) -> AsyncIterator[CoordinatorRecord]:
            if failures.pop() if failures else 0:
                raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE, "its start has moved")
            return read_newest(index, transactions)

        appender.read_newest = failing  # type: ignore[method-assign]
        stage.metadata(leader=1, epoch=2, isr=(1,))
        await until(lambda: stage.committed() == 5)
        assert not failures

    play(scene)
