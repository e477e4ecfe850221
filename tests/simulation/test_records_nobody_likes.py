"""Committed records that a broker cannot apply: it marks the key or the partition and continues.

They are replayed at every start, so a broker that ended because of one would never serve again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.controller.decisions.decision import Decision
from broker.metadata.delta import Changes
from broker.metadata.image import ResourceType
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.metadata_records import ConfigRecord, PartitionChangeRecord
from tests.simulation.cluster import SimCluster
from tests.simulation.world import SimWorld


class Alone:
    """One broker on one machine, with records written without any check."""

    def __init__(self) -> None:
        self.world = SimWorld("records nobody likes")
        self.cluster = SimCluster(self.world, brokers=1)
        self.machine = self.cluster.machines[0]

    def run(self, story: Callable[[], Any], traces: int = 0) -> None:
        """`traces`: errors that the broker is expected to log with a traceback."""
        self.world.run(story())
        self.world.end()
        logged = [one for one in self.world.complaints if "logged: " in one]
        assert self.world.complaints == logged
        assert len(logged) == traces, logged

    async def start(self) -> None:
        self.machine.start()
        assert await self.world.until(lambda: self.machine.broker is not None, 30)

    async def start_again(self) -> None:
        self.machine.stop()
        assert await self.world.until(lambda: not self.machine.alive, 30)
        await self.start()

    @property
    def components(self) -> Any:
        assert self.machine.broker is not None
        return self.machine.broker.components

    async def create(self, *names: str) -> None:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
        side = self.machine.broker.roles.client_listener_type  # type: ignore[union-attr]
        answer = await self.components.dispatchers[side].call(ApiKey.CREATE_TOPICS, request)
        assert [one.error_code for one in answer.topics] == [0] * len(names)

    async def write(self, *records: object) -> None:
        """Writes records as an older version would have; they are committed when this returns."""
        done: list[None] = []
        self.components.controller.write(lambda _: Decision(records, None), done.append)
        assert await self.world.until(lambda: bool(done), 30)


def config_record(kind: ResourceType, name: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind.value, resource_name=name, name=key, value=value)


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (ResourceType.TOPIC, "odd", "remote.storage.enable", "true"),
        (ResourceType.TOPIC, "odd", "retention.ms", "next week"),
        (ResourceType.TOPIC, "odd", "min.insync.replicas", "many"),
        (ResourceType.TOPIC, "odd", "no.such.key", "1"),
        (ResourceType.BROKER, "", "log.retention.ms", "next week"),
        (ResourceType.BROKER, "1", "num.replica.fetchers", "many"),
    ],
)
def test_a_stored_value_that_cannot_be_in_force_marks_its_key_only(
    kind: ResourceType, name: str, key: str, value: str, caplog: pytest.LogCaptureFixture
):
    """The broker, running or at each start, reports it once and applies everything else."""
    alone = Alone()

    async def story() -> None:
        await alone.start()
        await alone.create("odd", "even")
        for _ in range(2):
            await alone.write(
                config_record(kind, name, key, value),
                config_record(ResourceType.TOPIC, "odd", "segment.bytes", "2097152"),
            )
            assert alone.components.replicas.get("odd", 0).log.config.segment_bytes == 2097152
            assert alone.components.replicas.get("odd", 0).log.config.retention_ms == 604_800_000
            assert alone.components.replicas.get("even", 0).is_leader
            caplog.clear()
            await alone.start_again()
            assert caplog.text.count(f"{key} of") == 1, caplog.text
            assert alone.components.replicas.get("odd", 0).is_leader
            assert alone.components.publisher.errors == 0
            assert next(iter(alone.components.stored_configs.refused))[1:] == (key, value)

    with caplog.at_level(logging.ERROR, "broker.server"):
        alone.run(story)


def test_a_stored_record_that_makes_no_sense_is_left_out(caplog: pytest.LogCaptureFixture):
    """It changes a partition that never existed; the other records are applied."""
    alone = Alone()

    async def story() -> None:
        await alone.start()
        await alone.create("even")
        await alone.write(
            PartitionChangeRecord(partition_id=7, topic_id=b"x" * 16, leader=1),
            config_record(ResourceType.TOPIC, "even", "segment.bytes", "2097152"),
        )
        for _ in range(2):
            assert alone.components.controller.load_errors == 1
            assert alone.components.replicas.get("even", 0).log.config.segment_bytes == 2097152
            await alone.start_again()

    alone.run(story, traces=3)
    assert "is left out" in caplog.text
    assert "Traceback" in caplog.text


def test_a_partition_that_cannot_be_made_does_not_keep_others_from_being_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It does not keep the later subscribers from the change, either."""
    alone = Alone()

    async def story() -> None:
        await alone.start()
        await alone.create("odd", "even")
        create = alone.components.replicas.create_partition

        def create_or_fail(name: str, *rest: Any, **more: Any) -> Any:
            if name == "odd":
                raise KeyError("planted")
            return create(name, *rest, **more)

        alone.components.replicas.create_partition = create_or_fail
        heard: list[int] = []
        alone.components.publisher.subscribe(lambda changes: heard.append(changes.image.offset))
        for name in ("odd", "even"):
            alone.components.publisher.publish(_changes_of(alone, name))
        assert len(heard) == 2
        assert alone.components.publisher.errors == 1

    with caplog.at_level(logging.ERROR, "broker.metadata"):
        alone.run(story, traces=1)
    assert "no replica of odd-0 here" in caplog.text
    assert "planted" in caplog.text


def _changes_of(alone: Alone, name: str) -> Changes:
    image = alone.components.metadata.image
    topic = image.topics[name]
    return Changes(image=image, changed_partitions=((topic, topic.partitions[0]),))
