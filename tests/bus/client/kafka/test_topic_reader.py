"""Reading a topic to its end, and what has come by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.admin import commands
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import start_offsets
from bus.client.kafka.producer import Producer
from bus.client.kafka.topic_reader import CatchUpTimeout, TopicMissing, TopicReader
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker

pytestmark = pytest.mark.slow

TOPIC = "read"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def bus(broker: RunningBroker) -> BusSettings:
    settings = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(settings, client_id="test")
    admin.create_topic(TOPIC, 1)
    admin.close()
    return settings


def opened(bus: BusSettings, timeout_s: float = 60.0) -> TopicReader:
    leaders = PartitionLeaders(bus, "test-ends")
    return TopicReader(
        bus, [TOPIC], start_offsets, client_id="test", leaders=leaders, timeout_s=timeout_s
    )


def put(bus: BusSettings, *values: bytes) -> None:
    producer = Producer(bus, client_id="test")
    for value in values:
        producer.send(TOPIC, value)
    assert producer.close() == 0


def test_everything_is_read_once(bus: BusSettings) -> None:
    """However often it is asked for."""
    reader = opened(bus)
    put(bus, b"1", b"2")
    assert [one.value for one in reader.read_to_end()] == [b"1", b"2"]
    put(bus, b"3")
    assert [one.value for one in reader.read_to_end()] == [b"3"]
    assert list(reader.read_to_end()) == []
    reader.close()


def test_what_came_is_read_without_a_question_to_anybody(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who works alone must not wait for a leader that has died."""
    reader = opened(bus)

    def asked(*_: object) -> None:
        raise AssertionError("the leader was asked")

    monkeypatch.setattr(PartitionLeaders, "end_offsets", asked)
    put(bus, b"1", b"2")
    found: list[bytes | None] = []
    while len(found) < 2:  # ends by the test's own time limit
        found += [one.value for one in reader.read_what_came()]
    monkeypatch.undo()
    put(bus, b"3")
    found += [one.value for one in reader.read_to_end()]
    assert found == [b"1", b"2", b"3"]
    reader.close()


def test_a_login_that_only_librdkafka_has_goes_on_with_it(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own client refuses its key; the ends are asked as before."""

    def refused(*_: object) -> None:
        raise BusError(ErrorCode.SECURITY_DISABLED, "test")

    monkeypatch.setattr(PartitionLeaders, "end_offsets", refused)
    reader = opened(bus)
    put(bus, b"1")
    assert [one.value for one in reader.read_to_end()] == [b"1"]
    reader.close()


def test_a_leader_that_never_comes_ends_the_wait_with_its_reason(
    bus: BusSettings, broker: RunningBroker
) -> None:
    """What waits for it must wait longer, and says why."""
    reader = opened(bus, timeout_s=0.1)
    broker.kill()
    with pytest.raises(CatchUpTimeout, match=TOPIC):
        list(reader.read_to_end())
    reader.close()


def test_a_topic_that_is_not_there_is_waited_for_and_then_said_to_be_missing(
    bus: BusSettings,
) -> None:
    """Not as one whose brokers do not answer."""
    with pytest.raises(TopicMissing, match="elsewhere: not there"):
        TopicReader(bus, ["elsewhere"], start_offsets, client_id="test", timeout_s=0.1)


def test_every_partition_is_read_also_one_that_is_added(bus: BusSettings) -> None:
    """Whoever reads names topics, not partitions."""
    reader = opened(bus)
    with closing(SyncClient.of(bus, "test")) as client:
        commands.add_partitions(client, TOPIC, 3)
    found: set[bytes | None] = set()
    with closing(Producer(bus, client_id="test")) as producer:
        for number in range(3):
            producer.send(TOPIC, b"%d" % number, partition=number)
    while found != {b"0", b"1", b"2"}:  # ends by the test's own time limit
        found |= {one.value for one in reader.read_to_end()}
    reader.close()
