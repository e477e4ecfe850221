"""What expires or is deleted goes by tombstones: none of it comes back after a restart."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.coordinator.group import service, shard
from broker.coordinator.group.effects import JoinRequest
from broker.coordinator.group.offsets import CommitRequest
from broker.coordinator.group.records import (
    OFFSETS,
    OFFSETS_TOPIC,
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
    decode,
)
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.group.shard import GroupLimits
from broker.coordinator.partition_writer import PartitionWriter
from broker.purgatory.timer import Timer
from broker.replica.partition import Partition
from bus.errors import ErrorCode
from bus.records.read import read_all
from tests.broker.one_broker import opened_logs, replicas_of

pytestmark = pytest.mark.timeout(120)

RETENTION_MS = 1000
SESSION_MS = 500
MESSAGE_BYTES = 20_000


class SetClock(RealClock):
    """The wall clock is what the test says."""

    wall_ms = 10_000

    def now_ms(self) -> int:
        return self.wall_ms


class GroupsBroker:
    """A broker with one partition of offsets; a second replica, where there is one, is the
    test's."""

    def __init__(self, directory: str) -> None:
        self.clock = SetClock(seed=1)
        self.logs = opened_logs(directory, self.clock)
        timer = Timer(self.clock)
        self.replicas = replicas_of(self.logs, self.clock, timer)
        self.groups = GroupCoordinator(
            writer=PartitionWriter(self.replicas, self.clock, OFFSETS, 60_000),
            timer=timer,
            clock=self.clock,
            limits=GroupLimits(1, SESSION_MS, 0, 100, RETENTION_MS, 4096),
            partition_count=lambda: 1,
        )
        self.partition = self.lead(isr=(1,))
        self.groups.on_elected(0)

    def lead(self, isr: tuple[int, ...], epoch: int = 0) -> Partition:
        config = replace(TopicConfig(), compacted=True, deletes=False, max_message_bytes=MESSAGE_BYTES)
        return self.replicas.create_partition(
            OFFSETS_TOPIC, bytes(range(16)), 0, leader_id=1, leader_epoch=0,
            partition_epoch=epoch, replicas=(1, 2), isr=isr, config=config,
        )  # fmt: skip

    def commit(self, group_id: str, *places: tuple[str, int], offset: int = 1) -> list[ErrorCode]:
        value = CommittedOffset(offset, -1, "", self.clock.now_ms())
        answers: list[ErrorCode] = []
        self.groups.commit(
            CommitRequest(group_id, "", None, -1, [(*place, value) for place in places]),
            answers.append,
        )
        return answers

    async def delete(self, group_id: str) -> ErrorCode:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.groups.delete(group_id, done.set_result)
        return await done

    def store_group(self, group_id: str) -> None:
        """Its metadata, as after the last member of a generation has left."""
        stored = StoredGroup("consumer", 3, None, None, self.clock.now_ms())
        self.groups._runtime.write(
            self.groups._runtime.loaded_shards()[0], [GroupRecord(group_id, stored)], lambda _: None
        )
        reloaded(self)

    def records(self) -> list[CoordinatorRecord]:
        """All that was ever written."""
        data = self.partition.log.read(0, 1 << 30).data
        found = [decode(bytes(r.key or b""), None if r.value is None else bytes(r.value))
                 for _, r in read_all(data)]  # fmt: skip
        return [one for one in found if one is not None]

    def removed(self) -> list[CoordinatorRecord]:
        """The tombstones."""
        return [record for record in self.records() if record.value is None]


def reloaded(broker: GroupsBroker) -> None:
    broker.groups.on_resigned(0)
    broker.groups.on_elected(0)


async def until_loaded(broker: GroupsBroker) -> None:
    while broker.groups.is_loading:
        await asyncio.sleep(0)


def play(scene: Callable[[GroupsBroker], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(prefix="databus-removed-", dir=base) as directory:
            broker = GroupsBroker(directory)
            try:
                await scene(broker)
                reloaded(broker)
                await until_loaded(broker)
            finally:
                await broker.groups.stop()
                await broker.replicas.stop()
                await broker.logs.stop()

    asyncio.run(all_of_it())


def test_a_deleted_group_leaves_tombstones_of_its_metadata_and_of_every_offset() -> None:
    """Without the one of the metadata a restart brought the group back, empty."""

    async def scene(broker: GroupsBroker) -> None:
        broker.store_group("g")
        await until_loaded(broker)
        broker.commit("g", ("t", 0), ("t", 1), ("u", 0))
        broker.commit("other", ("t", 0))
        assert await broker.delete("g") is ErrorCode.NONE
        assert broker.removed() == [
            OffsetRecord("g", "t", 0, None), OffsetRecord("g", "t", 1, None),
            OffsetRecord("g", "u", 0, None), GroupRecord("g", None),
        ]  # fmt: skip
        reloaded(broker)
        await until_loaded(broker)
        assert [group.group_id for group in broker.groups.groups()] == ["other"]

    play(scene)


def test_metadata_that_are_on_their_way_into_the_log_are_removed_by_a_deletion() -> None:
    """The record of the generation is written and not replicated: nothing was known to be stored,
    so it got no tombstone."""

    async def scene(broker: GroupsBroker) -> None:
        broker.commit("g", ("t", 0))
        partition = broker.lead(isr=(1, 2), epoch=1)
        stored = StoredGroup("consumer", 3, None, None, broker.clock.now_ms())
        broker.groups._runtime.write(
            broker.groups._runtime.loaded_shards()[0], [GroupRecord("g", stored)], lambda _: None
        )
        deleting = asyncio.ensure_future(broker.delete("g"))
        await asyncio.sleep(0)
        partition.on_follower_fetch(2, partition.log.end_offset)
        assert await deleting is ErrorCode.NONE
        reloaded(broker)
        await until_loaded(broker)
        assert broker.groups.groups() == []

    play(scene)


def test_a_group_of_more_offsets_than_a_batch_may_hold_is_deleted_too() -> None:
    """One batch of all tombstones was too large for max.message.bytes: the group could never be
    deleted, nor its offsets expire."""

    async def scene(broker: GroupsBroker) -> None:
        for number in range(40):
            broker.commit("g", *[("topic", 50 * number + index) for index in range(50)])
        assert await broker.delete("g") is ErrorCode.NONE
        removed = broker.removed()
        assert len(removed) == 2001
        assert removed[-1] == GroupRecord("g", None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "MOST_TOMBSTONES", 100)
        play(scene)


def test_who_joins_while_a_group_is_deleted_keeps_its_group() -> None:
    """It was dropped with its member in it, whose request was never answered."""

    async def scene(broker: GroupsBroker) -> None:
        broker.commit("g", ("t", 0))
        partition = broker.lead(isr=(1, 2), epoch=1)
        deleting = asyncio.ensure_future(broker.delete("g"))
        await asyncio.sleep(0)
        joined: list[object] = []
        broker.groups.join("g", join_request(joined.append))
        partition.on_follower_fetch(2, partition.log.end_offset)
        assert await deleting is ErrorCode.NON_EMPTY_GROUP
        assert [group.group_id for group in broker.groups.groups()] == ["g"]

    play(scene)


def join_request(reply: Callable[[object], None]) -> JoinRequest:
    return JoinRequest(
        reply=reply, member_id="", group_instance_id=None, client_id="c", client_host="h",
        require_known_member_id=False, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000,
        protocol_type="consumer", protocols=(("range", b""),), fresh_member_id="m",
    )  # fmt: skip


def test_offsets_of_a_deleted_topic_are_removed_in_every_group() -> None:
    """And those of other topics stay."""

    async def scene(broker: GroupsBroker) -> None:
        broker.commit("g", ("t", 0), ("u", 0))
        broker.commit("h", ("t", 1))
        broker.groups.forget_topics(frozenset({"t"}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert broker.removed() == [
            OffsetRecord("g", "t", 0, None), OffsetRecord("h", "t", 1, None)
        ]  # fmt: skip

    play(scene)


def test_a_topic_that_is_deleted_while_offsets_are_loaded_is_forgotten_behind_the_load() -> None:
    """Its offsets stayed, and a topic of that name made later began in the middle."""

    async def scene(broker: GroupsBroker) -> None:
        broker.commit("g", ("t", 0), ("u", 0))
        reloaded(broker)
        assert broker.groups.is_loading
        broker.groups.forget_topics(frozenset({"t"}))
        await until_loaded(broker)
        assert broker.removed() == [OffsetRecord("g", "t", 0, None)]
        assert set(broker.groups.offsets_of("g")) == {("u", 0)}

    play(scene)


def test_an_empty_group_goes_with_its_last_offset() -> None:
    """As in Apache Kafka; its metadata stayed for another retention time."""

    async def scene(broker: GroupsBroker) -> None:
        broker.store_group("g")
        await until_loaded(broker)
        broker.commit("g", ("t", 0))
        await broker.groups.expire()
        assert broker.removed() == []
        broker.clock.wall_ms += RETENTION_MS
        await broker.groups.expire()
        assert broker.removed() == [OffsetRecord("g", "t", 0, None), GroupRecord("g", None)]
        assert broker.groups.groups() == []

    play(scene)


def test_a_stored_group_without_members_and_offsets_goes_at_the_next_expiry() -> None:
    """As in Apache Kafka, where nothing of it is worth keeping."""

    async def scene(broker: GroupsBroker) -> None:
        broker.store_group("g")
        await until_loaded(broker)
        await broker.groups.expire()
        assert broker.removed() == [GroupRecord("g", None)]

    play(scene)


def test_a_commit_that_is_on_its_way_does_not_expire() -> None:
    """The tombstone of the old one would stand behind it in the log, and remove the new one."""

    async def scene(broker: GroupsBroker) -> None:
        broker.commit("g", ("t", 0), ("t", 1))
        broker.clock.wall_ms += RETENTION_MS
        partition = broker.lead(isr=(1, 2), epoch=1)
        answers = broker.commit("g", ("t", 0), offset=7)
        expiring = asyncio.ensure_future(broker.groups.expire())
        await asyncio.sleep(0)
        partition.on_follower_fetch(2, partition.log.end_offset)
        await expiring
        assert answers == [ErrorCode.NONE]
        assert broker.removed() == [OffsetRecord("g", "t", 1, None)]
        reloaded(broker)
        await until_loaded(broker)
        assert {place: held.offset for place, held in broker.groups.offsets_of("g").items()} == {
            ("t", 0): 7
        }

    play(scene)


@pytest.mark.parametrize("groups", [1, 7, 60])
def test_what_expires_is_written_in_batches_and_all_of_it(groups: int) -> None:
    """Whatever its number; what is still used stays."""

    async def scene(broker: GroupsBroker) -> None:
        for number in range(groups):
            broker.commit(f"old-{number}", *[("t", index) for index in range(number * 3 % 40 + 1)])
        broker.clock.wall_ms += RETENTION_MS
        broker.commit("new", ("t", 0))
        await broker.groups.expire()
        assert [group.group_id for group in broker.groups.groups()] == ["new"]
        assert len(broker.removed()) == sum(number * 3 % 40 + 1 for number in range(groups))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "MOST_TOMBSTONES", 20)
        patch.setattr(service, "MOST_TOMBSTONES", 20)
        patch.setattr(service, "GROUPS_PER_PIECE", 4)
        play(scene)


def test_the_names_of_a_batch_of_tombstones_are_bounded() -> None:
    """A group's name may have 32 KiB."""
    records = [OffsetRecord("g" * 32_000, "t", index, None) for index in range(10)]
    assert 1 <= len(shard.first_of_batch(records)) < 10
    assert shard.first_of_batch([OffsetRecord("g" * 400_000, "t", 0, None)])


