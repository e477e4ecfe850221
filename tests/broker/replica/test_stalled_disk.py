"""A disk whose every flush takes three seconds delays the requests that need it, and no others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from broker.disk.port import Disk
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.replica.story import NOW_MS, TOPIC, TOPIC_ID, ReplicaStory, batch, call, until
from tests.simulation.disk import ProcessDisk, SimDisk, input_output_error
from tests.simulation.loop import ProcessLife, VirtualLoop

FLUSH_S = 3.0
SOON_S = 0.2
"""Far less than a flush; a follower's request may wait as long at its leader."""


class StalledDisk(ProcessDisk):
    """Work for one directory takes three seconds; what the loop does itself takes none."""

    def __init__(self, number: int) -> None:
        dice = random.Random(number)
        super().__init__(SimDisk(str(number), dice, lambda: NOW_MS), ProcessLife(str(number)), dice)
        self.stalled = "-"

    async def run(self, function: Any, *arguments: Any, worker: str = "") -> Any:
        if worker.startswith(self.stalled):
            await asyncio.sleep(FLUSH_S)
        return await super().run(function, *arguments, worker=worker)


class StalledStory(ReplicaStory):
    """Two partitions, each in a log directory of its own; every record is flushed."""

    def _disk(self, number: int) -> Disk:
        return StalledDisk(number)

    def disk(self, number: int) -> StalledDisk:
        disk = self[number].logs.disk
        assert isinstance(disk, StalledDisk)
        return disk

    def create(self, replicas: tuple[int, ...]) -> None:
        self.topic_config = replace(self.topic_config, flush_messages=1)
        self.controller.create(replicas)
        for number in replicas:
            self[number].replicas.create_partition(
                TOPIC, TOPIC_ID, 1, leader_id=replicas[0], leader_epoch=0, partition_epoch=0,
                replicas=replicas, isr=replicas, config=self.topic_config,
            )  # fmt: skip
            found = [self[number].replicas.get(TOPIC, index).log.directory for index in (0, 1)]
            assert found == [f"/d/{number}/0/t-0", f"/d/{number}/1/t-1"]

    def send(self, index: int, acks: int, records: bytes | None = None) -> asyncio.Future[Any]:
        """One batch to a partition; its answer comes later."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        data = [PartitionProduceData(index=index, records=records or batch("x"))]
        topics = [TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=data)]
        body = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=topics)
        call(
            self[1], ApiKey.PRODUCE, body,
            lambda response: future.set_result(response.responses[0].partition_responses[0]),
        )  # fmt: skip
        return future

    def ask(self, index: int) -> asyncio.Future[Any]:
        """A consumer's fetch from the beginning, which does not wait."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asks = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=asks)]
        call(
            self[1], ApiKey.FETCH, FetchRequest(max_wait_ms=1, topics=topics),
            lambda response: future.set_result(response.responses[0].partitions[0]),
        )  # fmt: skip
        return future


def run_story(count: int, story: Callable[[StalledStory], Coroutine[Any, Any, None]]) -> None:
    async def all_of_it() -> None:
        world = StalledStory("/d", count, 2, replica_lag_time_max_ms="100000000")
        world.create(tuple(range(1, count + 1)))
        await story(world)
        for number in world.nodes:
            world.disk(number).stalled = "-"
        await world.stop()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(all_of_it())
    finally:
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


def test_acknowledgements_wait_for_their_own_disk_only() -> None:
    """With acks=1 and acks=all alike; what is not flushed is not visible."""

    async def story(world: StalledStory) -> None:
        world.disk(1).stalled = "/d/1/0"
        began = now()
        slow = [world.send(0, acks=1), world.send(0, acks=-1)]
        for acks in (1, -1):
            assert (await world.send(1, acks=acks)).error_code == 0
        assert now() - began < SOON_S
        assert len((await world.ask(0)).records) == 0
        assert len((await world.ask(1)).records) > 0
        assert now() - began < SOON_S
        assert [(await answer).error_code for answer in slow] == [0, 0]
        assert now() - began >= FLUSH_S
        assert len((await world.ask(0)).records) > 0

    run_story(1, story)


def test_a_flush_that_fails_is_told_to_whoever_waits_for_it() -> None:
    """KAFKA_STORAGE_ERROR, and the directory is offline; the other one is served."""

    async def story(world: StalledStory) -> None:
        world.disk(1).stalled = "/d/1/0"

        def fault(kind: str, path: str) -> None:
            if kind == "flush" and path.startswith("/d/1/0/t-0/"):
                raise input_output_error(path)

        world.disk(1).fault = fault
        waiting = [world.send(0, acks=1), world.send(0, acks=-1)]
        codes = [ErrorCode.of((await answer).error_code) for answer in waiting]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert len(world[1].replicas.offline_dirs) == 1
        assert (await world.send(1, acks=-1)).error_code == 0

    run_story(1, story)


def test_a_followers_next_fetch_waits_for_its_flush() -> None:
    """The leader counts what the follower has on its device; other partitions are copied on."""

    async def story(world: StalledStory) -> None:
        for index in (0, 1):
            assert (await world.send(index, acks=-1)).error_code == 0
        world.disk(2).stalled = "/d/2/0"
        began = now()
        slow = world.send(0, acks=-1)
        follower = world[2].partition.log
        await until(lambda: follower.end_offset == 2, "it is copied")
        assert now() - began < SOON_S
        for _ in range(5):
            before = now()
            assert (await world.send(1, acks=-1)).error_code == 0
            assert now() - before < SOON_S
        assert not slow.done()
        assert world[1].partition.high_watermark == 1
        assert (await slow).error_code == 0
        assert now() - began >= FLUSH_S
        assert follower.recovery_point == 2

    run_story(2, story)


def test_a_truncation_on_a_stalled_disk_holds_up_no_other_partition() -> None:
    """Nothing is appended before it is durable, and the other partition is copied meanwhile."""

    async def story(world: StalledStory) -> None:
        for index in (0, 1):
            for _ in range(3):
                assert (await world.send(index, acks=-1)).error_code == 0
        world.disk(2).stalled = "/d/2/0"
        log = world[2].partition.log
        world[1].partition.log.truncate_to(1, NOW_MS)
        world[1].partition.log.high_watermark = 1
        world.controller.change(leader=1)
        began = now()
        slow = world.send(0, acks=-1)
        await until(lambda: log.end_offset == 1, "it is cut")
        for _ in range(5):
            assert (await world.send(1, acks=-1)).error_code == 0
        assert now() - began < 5 * SOON_S
        assert (log.end_offset, log.guard.is_blocked) == (1, True)
        assert (await slow).error_code == 0
        assert now() - began >= FLUSH_S
        assert world.content(1) == world.content(2)

    run_story(2, story)


def test_checkpoints_of_a_stalled_disk_hold_up_nobody() -> None:
    """Recovery points, log starts and watermarks; of two contents that wait the newer is written."""

    async def story(world: StalledStory) -> None:
        node = world[1]
        node.logs.start()
        world.disk(1).stalled = "/d/1/0"
        began = now()
        for at in range(3):
            assert (await world.send(1, acks=1)).error_code == 0
            node.logs.checkpoints.write()
            node.replicas.checkpoint_high_watermarks()
            await node.logs.checkpoint_writer.until_written("/d/1/1")
            text = world.disk(1).read_text("/d/1/1/replication-offset-checkpoint")
            assert text == f"0\n1\nt 1 {at + 1}\n"
        assert now() - began < SOON_S
        await node.logs.checkpoint_writer.until_written("/d/1/0")
        text = world.disk(1).read_text("/d/1/0/recovery-point-offset-checkpoint")
        assert text == "0\n1\nt 0 0\n"
        assert now() - began < 5 * FLUSH_S

    run_story(1, story)
