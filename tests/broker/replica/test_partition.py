"""Partitions and the replica manager on real logs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.log.errors import LogError
from broker.log.timestamps import TimestampOffset, TimestampSearch
from broker.log.validation import AppendOrigin
from broker.metrics.registry import Metrics
from broker.replica.mirrored import PartitionMirror
from broker.replica.partition import Isolation, Partition
from bus.errors import ErrorCode
from bus.records.batch import assign, iter_batches
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.one_broker import opened_logs, replicas_of

NOW_MS = 1_760_000_000_000
ID = bytes(range(16))


class PartitionWorld:
    """One broker's storage side in a directory."""

    def __init__(self, directory: str) -> None:
        clock = RealClock()
        self.metrics = Metrics()
        self.logs = opened_logs(directory, clock)
        self.replicas = replicas_of(self.logs, clock, metrics=self.metrics)

    def partition(self, *, isr: tuple[int, ...] = (1,), leader: int = 1, epoch: int = 0,
                  partition_epoch: int = 0, replicas: tuple[int, ...] = (),
                  **config: int) -> Partition:  # fmt: skip
        return self.replicas.create_partition(
            "t", ID, 0, leader_id=leader, leader_epoch=epoch, partition_epoch=partition_epoch,
            replicas=replicas or isr, isr=isr, config=TopicConfig(**config),  # type: ignore[arg-type]
        )  # fmt: skip

    def end(self) -> None:
        asyncio.run(self._end())

    async def _end(self) -> None:
        await self.replicas.stop()
        await self.logs.stop()


@pytest.fixture
def directory() -> Iterator[str]:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    path = tempfile.mkdtemp(prefix="databus-replica-", dir=base)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def world(directory: str) -> PartitionWorld:
    return PartitionWorld(directory)


def batch(count: int = 1) -> bytearray:
    return build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS + i) for i in range(count)])


def put(partition: Partition, count: int = 1, acks: int = -1) -> int:
    return partition.append_as_leader(batch(count), required_acks=acks, now_ms=NOW_MS).last_offset


def refused(code: ErrorCode, action: Callable[[], object]) -> None:
    with pytest.raises(LogError) as caught:
        action()
    assert caught.value.code is code


def test_with_one_replica_an_append_is_acknowledged_and_visible_at_once(world: PartitionWorld) -> None:
    partition = world.partition()
    assert put(partition, 3) == 2
    assert partition.high_watermark == 3
    assert partition.is_acknowledged(3) is ErrorCode.NONE
    assert partition.is_acknowledged(4) is None


def append_mirrored(partition: Partition, world: PartitionWorld) -> None:
    mirror = PartitionMirror(partition, world.replicas)
    mirror.claim(1)
    end = partition.log.end_offset
    records = batch(2)
    assign(records, 0, end, 0)
    mirror.append(records, base_offset=end, generation=1, now_ms=NOW_MS)


APPENDS: dict[str, Callable[[Partition, PartitionWorld], object]] = {
    "client": lambda partition, _: put(partition, 2),
    "coordinator": lambda partition, _: partition.append_as_leader(
        batch(2), required_acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    ),
    "mirror": append_mirrored,
}


@pytest.mark.parametrize("writer", APPENDS)
def test_every_append_of_a_leader_is_counted_once_whoever_writes(
    world: PartitionWorld, writer: str
) -> None:
    """Kafka counts the appends of coordinators, too; here each handler counted its own."""
    partition = world.partition()
    count = world.metrics.meter("BrokerTopicMetrics", "MessagesInPerSec", topic="t")
    for number in range(1, 4):
        APPENDS[writer](partition, world)
        assert count.count == 2 * number
    size = world.metrics.meter("BrokerTopicMetrics", "BytesInPerSec").count
    assert size == partition.log.size_bytes


def test_what_is_not_written_is_not_counted(world: PartitionWorld) -> None:
    """A refused append, and the repetition of an idempotent producer's batch."""
    partition = world.partition(min_insync_replicas=2, replicas=(1, 2))
    refused(ErrorCode.NOT_ENOUGH_REPLICAS, lambda: put(partition))
    sent = build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)], producer_id=7, producer_epoch=0,
                       base_sequence=0)  # fmt: skip
    for _ in range(2):
        partition.append_as_leader(bytearray(sent), required_acks=1, now_ms=NOW_MS)
    assert world.metrics.meter("BrokerTopicMetrics", "MessagesInPerSec").count == 1


def test_with_followers_nothing_is_visible_before_all_in_sync_have_it(world: PartitionWorld) -> None:
    partition = world.partition(isr=(1, 2, 3))
    put(partition, 4)
    assert (partition.high_watermark, partition.is_acknowledged(4)) == (0, None)
    partition.on_follower_fetch(2, 4)
    partition.on_follower_fetch(3, 2)
    assert partition.high_watermark == 2
    read = partition.read(0, 1 << 20, min_one=True, isolation=Isolation.READ_UNCOMMITTED)
    assert len(read.data) == 0, "the batch reaches beyond the watermark"
    assert len(partition.read(0, 1 << 20, min_one=True, isolation=Isolation.LOG_END).data) > 0
    partition.on_follower_fetch(3, 4)
    assert partition.is_acknowledged(4) is ErrorCode.NONE
    partition.on_follower_fetch(3, 1)
    assert partition.high_watermark == 4, "it never falls"


def test_a_shrunk_isr_lets_the_watermark_rise(world: PartitionWorld) -> None:
    partition = world.partition(isr=(1, 2))
    put(partition, acks=1)
    assert partition.high_watermark == 0
    world.partition(isr=(1,), partition_epoch=1)
    assert partition.high_watermark == 1


def test_too_few_in_sync_replicas_refuse_acks_all_but_take_acks_1(world: PartitionWorld) -> None:
    partition = world.partition(min_insync_replicas=2, replicas=(1, 2))
    refused(ErrorCode.NOT_ENOUGH_REPLICAS, lambda: put(partition))
    assert partition.log.end_offset == 0
    assert put(partition, acks=1) == 0


def test_a_minimum_above_the_number_of_replicas_means_all_of_them(world: PartitionWorld) -> None:
    """Kafka does so since 4.0; otherwise a topic with one replica could never be written."""
    partition = world.partition(min_insync_replicas=2)
    assert put(partition) == 0
    assert partition.high_watermark == 1


def test_only_the_leader_of_the_right_epoch_serves(world: PartitionWorld) -> None:
    partition = world.partition(epoch=5)
    partition.check_leader(5)
    partition.check_leader()
    refused(ErrorCode.FENCED_LEADER_EPOCH, lambda: partition.check_leader(4))
    refused(ErrorCode.UNKNOWN_LEADER_EPOCH, lambda: partition.check_leader(6))
    world.partition(leader=2, isr=(1, 2), epoch=6, partition_epoch=1)
    refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.check_leader)
    refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, lambda: put(partition))
    assert partition.is_acknowledged(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_old_news_from_the_controller_changes_nothing(world: PartitionWorld) -> None:
    partition = world.partition(epoch=5, partition_epoch=9)
    world.partition(leader=2, epoch=4, partition_epoch=10)
    world.partition(leader=2, epoch=5, partition_epoch=8)
    assert partition.is_leader


def test_batches_carry_the_leader_epoch_they_were_written_in(world: PartitionWorld) -> None:
    partition = world.partition(epoch=1)
    put(partition)
    world.partition(epoch=3, partition_epoch=1)
    put(partition)
    data = partition.read(0, 1 << 20, min_one=True, isolation=Isolation.LOG_END).data
    assert [h.partition_leader_epoch for _, h in iter_batches(data)] == [1, 3]
    assert partition.end_offset_for_epoch(1) == (1, 1)


def test_waiting_fetches_wake_on_append_and_waiting_produces_on_the_watermark(
    directory: str,
) -> None:
    async def story() -> None:
        world = PartitionWorld(directory)
        partition = world.partition(isr=(1, 2))
        answers: list[str] = []

        def fetch() -> bool:
            return partition.log.end_offset > 0 and not answers.append("fetch")

        def produce() -> bool:
            return partition.is_acknowledged(1) is ErrorCode.NONE and not answers.append("produce")

        world.replicas.fetch_purgatory.watch([partition.key], 60_000, fetch, lambda: None)
        world.replicas.produce_purgatory.watch([partition.key], 60_000, produce, lambda: None)
        put(partition, acks=1)
        assert answers == ["fetch"]
        partition.on_follower_fetch(2, 1)
        assert answers == ["fetch", "produce"]
        await world._end()

    asyncio.run(story())


def test_whoever_waits_for_a_deleted_partition_is_tried_again_at_once(directory: str) -> None:
    async def story() -> None:
        world = PartitionWorld(directory)
        partition = world.partition(isr=(1, 2))
        codes: list[ErrorCode] = []

        def produce() -> bool:
            code = partition.is_acknowledged(1)
            return code is not None and not codes.append(code)

        world.replicas.produce_purgatory.watch([partition.key], 60_000, produce, lambda: None)
        world.replicas.delete_partition("t", 0)
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lambda: world.replicas.get("t", 0))
        await world._end()

    asyncio.run(story())


def test_partitions_are_found_by_name(world: PartitionWorld) -> None:
    partition = world.partition()
    assert world.replicas.get("t", 0) is partition
    refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lambda: world.replicas.get("t", 1))
    assert world.replicas.find("t", 1) is None


def test_the_high_watermark_survives_a_restart_for_a_follower_too(directory: str) -> None:
    world = PartitionWorld(directory)
    partition = world.partition(isr=(1, 2))
    put(partition, 2)
    put(partition, 2)
    partition.on_follower_fetch(2, 2)
    world.end()
    assert "t 0 2" in Path(f"{directory}/replication-offset-checkpoint").read_text()
    again = PartitionWorld(directory).partition(isr=(1, 2), leader=2, epoch=1)
    assert (again.high_watermark, again.log.end_offset) == (2, 4)


def test_offsets_by_time_are_bounded_by_what_the_reader_may_see(world: PartitionWorld) -> None:
    partition = world.partition(isr=(1, 2))
    put(partition, 2)

    def at(timestamp_ms: int, isolation: Isolation) -> TimestampOffset | None:
        return partition.continue_search(TimestampSearch(partition.log, timestamp_ms), isolation)

    assert at(NOW_MS, Isolation.READ_UNCOMMITTED) is None
    partition.on_follower_fetch(2, 2)
    found = at(NOW_MS + 1, Isolation.READ_UNCOMMITTED)
    assert found is not None
    assert found.offset == 1
    largest = at(-3, Isolation.READ_COMMITTED)
    assert largest is not None
    assert largest[:2] == (NOW_MS + 1, 1)


def test_records_are_deleted_up_to_the_watermark_and_not_from_compacted_topics(
    world: PartitionWorld,
) -> None:
    partition = world.partition()
    put(partition, 5)
    assert partition.delete_records(2) == 2
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, lambda: partition.delete_records(6))
    assert partition.delete_records(-1) == 5
    world.replicas.update_configs({"t": TopicConfig(compacted=True, deletes=False)})
    refused(ErrorCode.POLICY_VIOLATION, lambda: partition.delete_records(5))


def test_an_idle_partition_asks_again_for_a_follower_that_was_fenced_when_it_fetched(
    world: PartitionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: a session does not repeat an idle partition, so no fetch asked again
    once the follower's broker was unfenced, and it stayed out of the in-sync set for ever."""
    proposed: list[tuple[int, ...]] = []
    unfenced: set[int] = set()
    host = world.replicas
    monkeypatch.setattr(host, "is_eligible", lambda broker_id, epoch: broker_id in unfenced)
    monkeypatch.setattr(host, "propose", lambda partition, proposal: proposed.append(proposal.isr))
    partition = host.create_partition(
        "t", ID, 0, leader_id=1, leader_epoch=0, partition_epoch=0,
        replicas=(1, 2), isr=(1,), config=TopicConfig(),
    )  # fmt: skip
    partition.on_follower_fetch(2, 0)
    assert proposed == []
    unfenced.add(2)
    host.on_brokers_changed()
    assert proposed == [(1, 2)]
