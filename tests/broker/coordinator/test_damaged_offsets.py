"""A flipped bit in `__consumer_offsets` loses one commit, which is logged, and nothing else.

Committed offsets vanished without a line in any log: the checksum was not looked at.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.coordinator.group.records import OFFSETS, OFFSETS_TOPIC, CommittedOffset, OffsetRecord
from broker.coordinator.partition_writer import PartitionWriter
from broker.disk.real import RealDisk
from broker.log.manager import LogManager
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition

GROUPS = 8


class OffsetsBroker:
    """One broker that leads one partition of offsets alone."""

    def __init__(self, directory: str) -> None:
        clock = RealClock()
        config = BrokerConfig.from_mapping({"log.dirs": directory, "node.id": "1"})
        self.logs = LogManager(config=config, disk=RealDisk(), clock=clock)
        self.logs.prepare()
        self.logs.load(lambda topic: TopicConfig())
        self.replicas = ReplicaManager(
            broker_id=1,
            log_manager=self.logs,
            clock=clock,
            timer=Timer(clock),
            metrics=Metrics(),
        )
        self.appender = PartitionWriter(self.replicas, clock, OFFSETS, 5_000)
        self.partition: Partition = self.replicas.create_partition(
            OFFSETS_TOPIC, bytes(range(16)), 0, leader_id=1, leader_epoch=0, partition_epoch=0,
            replicas=[1], isr=[1], config=TopicConfig(),
        )  # fmt: skip

    def commit(self, group: int) -> None:
        record = OffsetRecord(f"group-{group}", "t", 0, CommittedOffset(100 + group, -1, "", 0))
        self.appender.write(0, [record], lambda: None, lambda error: None)

    def read(self) -> dict[str, int]:
        async def all_of_it() -> dict[str, int]:
            found = {}
            async for record in self.appender.read_all(0):
                assert isinstance(record, OffsetRecord)
                assert record.value is not None
                found[record.group_id] = record.value.offset
            return found

        return asyncio.run(all_of_it())

    @property
    def path(self) -> Path:
        return Path(self.partition.log.active_segment.path)


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_bit_anywhere_loses_one_commit_at_most_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    """In header, checksum, key or value: the other groups keep their offsets, none gets a wrong
    one."""
    caplog.set_level(logging.ERROR)
    life = OffsetsBroker(str(tmp_path))
    for group in range(GROUPS):
        life.commit(group)
    whole = life.read()
    assert whole == {f"group-{group}": 100 + group for group in range(GROUPS)}
    data = life.path.read_bytes()
    for bit in range(part * 17, 8 * len(data), 4 * 17):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        life.path.write_bytes(flipped)
        life.partition.log.active_segment.forget_cursors()
        caplog.clear()
        found = life.read()
        assert found.items() <= whole.items(), bit
        assert len(found) >= GROUPS - 1, bit
        assert (f"{OFFSETS_TOPIC}-0 is damaged" in caplog.text) is (len(found) < GROUPS), bit


def test_whole_segments_behind_a_rotten_one_are_read(tmp_path: Path) -> None:
    """A header of nonsense in one does not end the reading."""
    life = OffsetsBroker(str(tmp_path))
    life.commit(0)
    first = life.path
    life.partition.log.roll(0)
    life.commit(1)
    first.write_bytes(b"\xff" * first.stat().st_size)
    life.partition.log.segments.first.forget_cursors()
    assert life.read() == {"group-1": 101}
