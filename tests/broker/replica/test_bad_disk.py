"""A bad disk stops only the replicas on it: EIO at every call of a scenario.

A follower with two log directories copies four partitions from one leader: it rolls segments, is cut
back by another history, restarts one partition, runs retention and checkpoints, moves a replica
between its directories and loses one to a deletion. One call of the disk in the first directory is
refused, each in its turn, once or from then on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker.config.views import TopicConfig
from broker.disk.port import Disk
from broker.log.errors import LogError
from broker.log.log_dirs import parent_of
from broker.metadata.image import PartitionImage, TopicImage, frozen
from broker.replica.partition import Partition
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from tests.broker.replica.story import (
    NOW_MS,
    TOPIC,
    TOPIC_ID,
    ReplicaNode,
    ReplicaStory,
    batch,
    until,
)
from tests.simulation.disk import ProcessDisk, SimDisk, input_output_error
from tests.simulation.loop import ProcessLife, VirtualLoop

CONFIG = replace(TopicConfig(), segment_bytes=400, index_interval_bytes=0, file_delete_delay_ms=0)
LEADER, FOLLOWER = 1, 2
COUNT = 4
BAD = "/d/2/0"
STRIDE = 23
"""Of all calls so many are left out between two that are tried; each run begins at another one."""


@contextmanager
def refusals() -> Iterator[None]:
    """What a failed directory makes of a request is Kafka's error for it, or nothing."""
    try:
        yield
    except LogError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise


class BadDiskStory(ReplicaStory):
    """Two brokers with disks in memory, and four partitions instead of one."""

    def _disk(self, number: int) -> Disk:
        dice = random.Random(number)
        return ProcessDisk(SimDisk(str(number), dice, lambda: NOW_MS), ProcessLife(str(number)), dice)

    def lead(self, epoch: int) -> None:
        """Broker 1 leads all partitions in this epoch, and both brokers know it."""
        parts = tuple(PartitionImage(i, (1, 2), (1, 2), LEADER, epoch, epoch) for i in range(COUNT))
        self.controller.image = replace(
            self.controller.image,
            topics=frozen({TOPIC: TopicImage(TOPIC, TOPIC_ID, parts)}),
            topic_names=frozen({TOPIC_ID: TOPIC}),
            brokers=self.brokers(),
        )
        for node in self.nodes.values():
            node.services.metadata.image = self.controller.image
            for index in range(COUNT):
                self._put(node, index, epoch)

    def _put(self, node: ReplicaNode, index: int, epoch: int) -> None:
        with refusals():  # as the subscriber does
            node.replicas.create_partition(
                TOPIC, TOPIC_ID, index, leader_id=LEADER, leader_epoch=epoch,
                partition_epoch=epoch, replicas=(1, 2), isr=(1, 2), config=CONFIG,
            )  # fmt: skip

    def log(self, number: int, index: int) -> Any:
        partition = self[number].replicas.find(TOPIC, index)
        return None if partition is None else partition.log

    def put_each(self, count: int) -> None:
        for index in range(COUNT):
            for at in range(count):
                self.leader(index).append_as_leader(
                    batch(f"{index} {at} " + "x" * 60), required_acks=1, now_ms=NOW_MS
                )

    def leader(self, index: int) -> Partition:
        return self[LEADER].replicas.get(TOPIC, index)

    def is_copied(self, index: int) -> bool:
        """Whether the follower has what the leader has, or has given the replica up."""
        theirs, ours = self.log(LEADER, index), self.log(FOLLOWER, index)
        return ours is None or (ours.end_offset, ours.latest_epoch) == (
            theirs.end_offset, theirs.latest_epoch
        )  # fmt: skip

    async def until_copied(self) -> None:
        await until(lambda: all(map(self.is_copied, range(COUNT))), "everything is copied")


def content(log: Any) -> bytes:
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        piece = bytes(log.read(offset, 1 << 20).data)
        found += piece
        offset = [header for _, header in iter_batches(piece)][-1].end_offset
    return found


async def scenario(world: BadDiskStory) -> None:
    """All kinds of work that a follower's disk does; the bad directory may go at any of it."""
    follower = world[FOLLOWER]
    world.put_each(8)
    await world.until_copied()
    for index in range(COUNT):  # another history from offset 5 on
        world.leader(index).log.truncate_to(5, NOW_MS)
    world.lead(2)
    world.put_each(3)
    await world.until_copied()
    world.leader(0).log.truncate_fully_and_start_at(40, NOW_MS)  # all of it was deleted there
    world.leader(0).log.advance_high_watermark(40)
    world.put_each(2)
    await world.until_copied()
    background = follower.logs._maintenance
    await background.flush_and_checkpoint()
    await background.checkpoint_starts()
    follower.replicas.checkpoint_high_watermarks()
    for index in range(COUNT):
        world.leader(index).delete_records(-1 if index == 2 else 0)
    await background.delete_old_segments()
    for index in range(COUNT):  # from the bad directory to the good one, and the other way
        log = world.log(FOLLOWER, index)
        if log is not None and index < 2:
            to = f"/d/2/{1 - int(parent_of(log)[-1])}"
            with refusals():
                follower.replicas.log_dir_mover.alter(TOPIC, index, to)
    await until(lambda: not len(follower.replicas.log_dir_mover), "the moves end")
    follower.replicas.delete_partition(TOPIC, 3)
    world.put_each(1)
    world._put(follower, 3, 2)
    await world.until_copied()
    await follower.logs.checkpoint_writer.until_written(BAD)


async def one_life(call: int, *, for_good: bool) -> bool:
    """The scenario with one call refused; whether the scenario makes that many."""
    broken: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: broken.append(context))
    world = BadDiskStory("/d", 2, 2, replica_lag_time_max_ms="100000000")
    world.lead(1)
    for node in world.nodes.values():
        node.logs.start()
    disk: Any = world[FOLLOWER].logs.disk
    calls = [0]

    def fault(kind: str, path: str) -> None:
        if path.startswith(BAD):
            calls[0] += 1
            if calls[0] == call or (for_good and calls[0] > call):
                raise input_output_error(path)

    disk.fault = fault
    await scenario(world)
    disk.fault = lambda kind, path: None
    told = f"call {call} of {calls[0]}"
    assert not broken, f"{told}: {broken[0]}"
    ids = world[FOLLOWER].logs.directory_ids
    offline = world[FOLLOWER].replicas.offline_dirs
    assert offline in ((), (ids[BAD],)), told
    for index in range(COUNT):
        log = world.log(FOLLOWER, index)
        if log is None:
            assert offline, f"{told}: {index} is gone though its directory has not failed"
        else:
            assert not offline or parent_of(log) != BAD, told
            ours, theirs = content(log), content(world.log(LEADER, index))
            assert ours, told
            assert theirs.endswith(ours), told  # retention has deleted records at its start
    await world.stop()
    assert not broken, f"{told}: {broken[0]}"
    return calls[0] >= call


def run_all(first: int, *, for_good: bool, stride: int) -> int:
    for tried, call in enumerate(range(first, 5000, stride)):
        loop = VirtualLoop()
        try:
            goes_on = loop.run_until_complete(one_life(call, for_good=for_good))
        finally:
            loop.close()
        if not goes_on:
            return tried
    raise AssertionError("the scenario never came to its end")


@pytest.mark.parametrize("for_good", [False, True])
def test_a_bad_disk_under_a_follower_stops_its_own_replicas_only(for_good: bool) -> None:
    """No task ends with an error, the other directory is copied on, nothing is half there."""
    assert run_all(1 + 7 * for_good, for_good=for_good, stride=STRIDE) > 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("for_good", [False, True])
def test_a_bad_disk_at_any_call_at_all(for_good: bool) -> None:
    """The same at every single call."""
    assert run_all(1, for_good=for_good, stride=1) > 200
