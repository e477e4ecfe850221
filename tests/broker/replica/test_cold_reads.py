"""Reads of what is not in memory: off the loop, and correct after any change of the log meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.disk.port import Disk
from broker.log.timestamps import LARGEST, SearchPending, TimestampOffset, TimestampSearch
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.replica.story import NOW_MS, TOPIC, TOPIC_ID, ReplicaStory, batch, call, until
from tests.simulation.disk import ProcessDisk, SimDisk, input_output_error
from tests.simulation.loop import ProcessLife, VirtualLoop

READ_S = 3.0


class ColdDisk(ProcessDisk):
    """Nothing under ``cold`` is in memory before a worker has read it, which takes three seconds."""

    def __init__(self, number: int) -> None:
        dice = random.Random(number)
        super().__init__(SimDisk(str(number), dice, lambda: NOW_MS), ProcessLife(str(number)), dice)
        self.cold = ""
        self.warm: set[str] = set()
        self.reads = 0
        self.is_cold = lambda path, position: (
            bool(self.cold) and path.startswith(self.cold) and path not in self.warm
        )

    async def run(self, function: Any, *arguments: Any, worker: str = "") -> Any:
        if "/reads-" in worker:
            self.reads += 1
            await asyncio.sleep(READ_S)
            self.warm.add(arguments[0].path)
            return function(*arguments)
        return await super().run(function, *arguments, worker=worker)


class ColdStory(ReplicaStory):
    def _disk(self, number: int) -> Disk:
        return ColdDisk(number)

    @property
    def disk(self) -> ColdDisk:
        disk = self[1].logs.disk
        assert isinstance(disk, ColdDisk)
        return disk

    def ask(self, key: ApiKey, body: object) -> asyncio.Future[Any]:
        """A request of a client; its answer comes later."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call(self[1], key, body, future.set_result)
        return future

    def ask_fetch(self, *offsets: int, max_wait_ms: int = 60_000) -> asyncio.Future[Any]:
        asks = [
            FetchPartition(partition=at, fetch_offset=offset, partition_max_bytes=1 << 20)
            for at, offset in enumerate(offsets)
        ]
        topics = [FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=asks)]
        return self.ask(
            ApiKey.FETCH, FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)
        )


def run_story(story: Callable[[ColdStory], Coroutine[Any, Any, None]]) -> None:
    """One broker; three records in each of two partitions; all is cold from then on."""

    async def all_of_it() -> None:
        world = ColdStory("/d", 1)
        world.controller.create((1,))
        world[1].replicas.create_partition(
            TOPIC, TOPIC_ID, 1, leader_id=1, leader_epoch=0, partition_epoch=0, replicas=(1,),
            isr=(1,), config=world.topic_config,
        )  # fmt: skip
        for index in (0, 1):
            for at in range(3):
                world[1].replicas.get(TOPIC, index).append_as_leader(
                    batch(f"{index} {at}"), required_acks=1, now_ms=NOW_MS
                )
        world.disk.cold = "/d/1/0/t-0/"
        await story(world)
        await world.stop()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(all_of_it())
    finally:
        loop.close()


def partitions(response: Any) -> list[Any]:
    return list(response.responses[0].partitions) if response.responses else []


def test_a_cold_fetch_waits_for_the_disk_and_nobody_waits_for_it() -> None:
    """Its worker reads, the loop answers others; two clients of the same bytes are one read."""

    async def story(world: ColdStory) -> None:
        first, second = world.ask_fetch(0), world.ask_fetch(0)
        began = asyncio.get_running_loop().time()
        hot = await world.ask(
            ApiKey.FETCH,
            FetchRequest(
                max_wait_ms=1,
                topics=[
                    FetchTopic(
                        topic=TOPIC,
                        topic_id=TOPIC_ID,
                        partitions=[
                            FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=999)
                        ],
                    )
                ],
            ),
        )
        assert partitions(hot)[0].records
        assert asyncio.get_running_loop().time() - began < 0.01
        for answer in (await first, await second):
            (data,) = partitions(answer)
            assert bytes(data.records) == world.content(1)
        assert asyncio.get_running_loop().time() - began >= READ_S
        assert world.disk.reads == 1

    run_story(story)


def test_a_fetch_with_something_in_memory_is_answered_with_that() -> None:
    """The rest comes with the next one, when it has been read meanwhile."""

    async def story(world: ColdStory) -> None:
        cold, hot = partitions(await world.ask_fetch(0, 0))
        assert not cold.error_code
        assert not cold.records
        assert (cold.high_watermark, bool(hot.records)) == (3, True)
        (again,) = partitions(await world.ask_fetch(0))
        assert bytes(again.records) == world.content(1)
        assert world.disk.reads == 1

    run_story(story)


@pytest.mark.parametrize("max_wait_ms", [0, 500])
def test_a_fetch_that_does_not_wait_long_enough_is_answered_empty(max_wait_ms: int) -> None:
    async def story(world: ColdStory) -> None:
        (data,) = partitions(await world.ask_fetch(0, max_wait_ms=max_wait_ms))
        assert (data.error_code, len(data.records), data.high_watermark) == (0, 0, 3)
        await asyncio.sleep(READ_S)
        (data,) = partitions(await world.ask_fetch(0, max_wait_ms=max_wait_ms))
        assert bytes(data.records) == world.content(1)

    run_story(story)


def delete(world: ColdStory) -> None:
    world[1].replicas.delete_partition(TOPIC, 0)


def cut(world: ColdStory) -> None:
    world[1].partition.log.truncate_to(1, NOW_MS)


def raise_start(world: ColdStory) -> None:
    world[1].replicas.get(TOPIC, 0).delete_records(2)


@pytest.mark.parametrize(
    ("what", "error", "length"),
    [
        (delete, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0),
        (raise_start, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        (cut, ErrorCode.NONE, 1),
    ],
)
def test_what_becomes_of_the_log_during_a_cold_read_is_what_the_client_hears(
    what: Callable[[ColdStory], None], error: ErrorCode, length: int
) -> None:
    """The read continues on its own file handle; the answer uses the log's current state."""

    async def story(world: ColdStory) -> None:
        log = world[1].partition.log
        one_batch = log.size_bytes // 3
        waiting = world.ask_fetch(0)
        await asyncio.sleep(READ_S / 2)
        what(world)
        (data,) = partitions(await waiting)
        assert ErrorCode.of(data.error_code) is error
        assert len(data.records) == length * one_batch
        await until(lambda: not world[1].logs.cold_reads._under_way, "the read ends")

    run_story(story)


def test_a_look_up_by_time_reads_beside_other_work() -> None:
    async def story(world: ColdStory) -> None:
        asks = [ListOffsetsPartition(partition_index=0, timestamp=NOW_MS)]
        body = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=asks)])
        began = asyncio.get_running_loop().time()
        waiting = world.ask(ApiKey.LIST_OFFSETS, body)
        assert not waiting.done()
        (found,) = (await waiting).topics[0].partitions
        assert (found.error_code, found.offset) == (0, 0)
        assert asyncio.get_running_loop().time() - began >= READ_S

    run_story(story)


def test_a_disk_that_cannot_be_read_takes_its_directory_offline() -> None:
    """The worker's error is met again by the read of the log, which says it to the client."""

    async def story(world: ColdStory) -> None:
        def fault(kind: str, path: str) -> None:
            if kind == "read" and path.startswith("/d/1/0/t-0/"):
                raise input_output_error(path)

        world.disk.fault = fault
        (data,) = partitions(await world.ask_fetch(0))
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert world[1].replicas.offline_dirs
        world.disk.fault = lambda kind, path: None

    run_story(story)


def test_what_never_stays_in_memory_is_read_all_the_same() -> None:
    """A file system that says so of everything, or a machine without memory: progress first."""

    async def story(world: ColdStory) -> None:
        world.disk.is_cold = lambda path, position: path.startswith(world.disk.cold)
        (data,) = partitions(await world.ask_fetch(0))
        assert bytes(data.records) == world.content(1)
        assert 1 < world.disk.reads < 10

    run_story(story)


def test_a_look_up_that_takes_many_pieces_lets_others_be_served_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where what it reads is cold: it goes on from there, and does not begin again."""
    monkeypatch.setattr("broker.log.timestamps.HEADERS_PER_PIECE", 1)
    pauses = begun = 0
    next_piece, begin = TimestampSearch.next_piece, TimestampSearch._begin

    def counted(self: TimestampSearch) -> TimestampOffset | None:
        nonlocal pauses
        try:
            return next_piece(self)
        except SearchPending:
            pauses += 1
            raise

    def counted_begin(self: TimestampSearch) -> None:
        nonlocal begun
        begun += 1
        begin(self)

    monkeypatch.setattr(TimestampSearch, "next_piece", counted)
    monkeypatch.setattr(TimestampSearch, "_begin", counted_begin)

    async def story(world: ColdStory) -> None:
        partition = world[1].partition
        for at in range(40):
            record = Record(b"k", b"v", timestamp_ms=NOW_MS - 50 + at)
            partition.append_as_leader(build_batch([record]), required_acks=1, now_ms=NOW_MS)
        partition.delete_records(3)
        ask = [ListOffsetsPartition(partition_index=0, timestamp=LARGEST)]
        body = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=ask)])
        (found,) = (await world.ask(ApiKey.LIST_OFFSETS, body)).topics[0].partitions
        assert (found.error_code, found.offset, found.timestamp) == (0, 42, NOW_MS - 11)
        assert pauses >= 40
        assert (begun, world.disk.reads) == (1, 1)

    run_story(story)
