"""An application's positions are a consumer group that every tool of Kafka shows and resets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import admin_client, describe
from bus.client.model import ClusterIdentity, TopicPartition
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.testservers.databus import start_broker
from spark_apps.group_positions import GroupPositions

A, B = TopicPartition(DATA_FACE, 0), TopicPartition(DATA_FACE, 1)
GROUP = "streams-watchlist"


@pytest.fixture(params=["our broker", pytest.param("Apache Kafka", marks=pytest.mark.java)])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BusSettings]:
    """Both know the topics."""
    if request.param == "Apache Kafka":
        address = str(request.getfixturevalue("apache_kafka").address)
        yield _with_topics(address)
        return
    broker = start_broker(tmp_path / "broker")
    yield _with_topics(broker.bootstrap)
    broker.stop()


def _with_topics(address: str) -> BusSettings:
    settings = BusSettings(bootstrap_servers=address)
    admin = Admin(settings, client_id="test")
    admin.ensure_topics([TOPICS[DATA_FACE], TOPICS[DATA_VEHICLE]])
    if GROUP in admin.groups():
        admin.delete_group(GROUP)
    admin.close()
    return settings


def cluster_of(bus: BusSettings) -> ClusterIdentity:
    return describe(admin_client(bus), [DATA_FACE])


def opened(bus: BusSettings, cluster: ClusterIdentity | None = None) -> GroupPositions:
    cluster = cluster or cluster_of(bus)
    return GroupPositions(bus, "watchlist", cluster, [DATA_FACE], threading.Event())


def test_a_commit_names_all_partitions_and_never_lowers_one(bus: BusSettings) -> None:
    """Found by the next driver, and by Kafka's own question for a group."""
    first = opened(bus)
    assert first.read() == {}
    first.commit({A: 5})
    first.commit({B: 7})
    first.commit({A: 3})
    first.close()
    second = opened(bus)
    assert second.read() == {A: 5, B: 7}
    second.close()
    admin = Admin(bus, client_id="test")
    assert admin.committed(GROUP) == {A: 5, B: 7}
    admin.close()


def test_what_a_tool_of_kafka_has_reset_is_where_the_next_driver_begins(bus: BusSettings) -> None:
    """While it is stopped; the group has no member that would forbid it."""
    before = opened(bus)
    before.commit({A: 5, B: 7})
    before.close()
    admin = Admin(bus, client_id="test")
    admin.set_committed(GROUP, {A: 2, B: 0})
    admin.close()
    after = opened(bus)
    assert after.read() == {A: 2, B: 0}
    after.close()


def test_a_topic_that_was_created_again_is_read_from_its_beginning(
    bus: BusSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says so."""
    cluster = cluster_of(bus)
    earlier = ClusterIdentity(cluster.cluster_id, {DATA_FACE: "earlier"}, cluster.partitions)
    before = opened(bus, earlier)
    before.commit({A: 5})
    before.close()
    after = opened(bus)
    assert after.read() == {}
    after.close()
    assert "data.face-0 is of an earlier topic" in caplog.text
    assert after.replaced == {DATA_FACE}


def test_a_published_position_arrives_without_being_waited_for(bus: BusSettings) -> None:
    """What only those read who watch the lag."""
    positions = opened(bus)
    positions.read()  # the coordinator is there
    positions.publish({A: 9})
    other, found = opened(bus), {}
    while not found:  # ends by the test's own time limit
        found = other.read()
    positions.close()
    other.close()
    assert found == {A: 9}
