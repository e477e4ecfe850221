"""An application's positions are a consumer group that every tool of Kafka shows and resets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import admin_client, describe
from bus.client.kafka.consumer import Consumer
from bus.client.model import ClusterIdentity, TopicPartition
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, TOPICS
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from spark_apps.source.group_positions import GroupPositions

A, B = TopicPartition(DATA_FACE, 0), TopicPartition(DATA_FACE, 1)
GROUP = "streams-watchlist"


@pytest.fixture(scope="module")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real one; a test begins with an unknown group."""
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    yield broker.bootstrap
    broker.stop()


@pytest.fixture(params=["our broker", pytest.param("Apache Kafka", marks=pytest.mark.java)])
def bus(request: pytest.FixtureRequest) -> BusSettings:
    """Both know the topics."""
    if request.param == "Apache Kafka":
        return _with_topics(str(request.getfixturevalue("apache_kafka").address))
    return _with_topics(str(request.getfixturevalue("our_broker")))


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


def commit_now(positions: GroupPositions, ends: dict[TopicPartition, int]) -> None:
    """Now, and waited for."""
    positions.commit_soon({(place.topic, place.partition): end for place, end in ends.items()})
    positions.flush(60)


def test_a_commit_names_all_partitions_and_never_lowers_one(bus: BusSettings) -> None:
    """Found by the next driver, and by Kafka's own question for a group."""
    first = opened(bus)
    assert first.read() == {}
    commit_now(first, {A: 5})
    commit_now(first, {B: 7})
    commit_now(first, {A: 3})
    commit_now(first, {B: 7})
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
    commit_now(before, {A: 5, B: 7})
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
    commit_now(before, {A: 5})
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


def test_a_partition_that_nothing_comes_from_is_named_by_every_commit(bus: BusSettings) -> None:
    """What broke: only what had been read or committed before was named, so that the position of a
    quiet partition expired, and ingest, which reads no group, left it out after every start."""
    positions = opened(bus)
    positions.start_at({A: 2, B: 0})
    positions.publish({A: 5})
    commit_now(positions, {})  # waits, and so for the one before
    assert opened(bus).read() == {A: 5, B: 0}
    positions.close()


def test_what_was_not_committed_for_an_hour_is_committed_again(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without traffic; before the first batch as well."""
    positions, reader = opened(bus), opened(bus)
    positions.start_at({A: 2, B: 0})
    positions.refresh()
    assert reader.read() == {}
    monkeypatch.setattr("spark_apps.source.group_positions.REFRESH_S", 0.0)
    found = {}
    while not found:  # ends by the test's own time limit
        positions.refresh()
        found = reader.read()
    assert found == {A: 2, B: 0}
    positions.close()
    reader.close()


def test_the_slower_of_two_drivers_never_lowers_the_group_and_goes_on_after_the_other(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: each committed its own ends, so that the slower one took the group back, and what
    a third one repeated after their death was more than a batch."""
    monkeypatch.setattr("spark_apps.source.group_positions.CHECK_S", 0.0)
    fast, slow, reader = opened(bus), opened(bus), opened(bus)
    for one in (fast, slow):
        one.read()
        one.start_at({A: 0, B: 0})
    commit_now(fast, {A: 50, B: 10})
    commit_now(slow, {A: 20, B: 10})
    assert reader.read() == {A: 50, B: 10}
    commit_now(slow, {A: 49, B: 90})
    assert reader.read() == {A: 50, B: 10}, "behind in one partition"
    fast.close()
    commit_now(slow, {A: 51})
    assert reader.read() == {A: 51, B: 90}
    slow.close()
    reader.close()


def test_a_driver_that_was_overtaken_does_not_renew_what_it_had(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs for an hour while the other works."""
    hanging, working, reader = opened(bus), opened(bus), opened(bus)
    hanging.read()
    commit_now(hanging, {A: 5})
    working.read()
    commit_now(working, {A: 50})
    monkeypatch.setattr("spark_apps.source.group_positions.REFRESH_S", -1.0)
    monkeypatch.setattr("spark_apps.source.group_positions.time.monotonic", lambda: 1e12)
    hanging.refresh()
    hanging.close()
    assert reader.read() == {A: 50}
    working.close()
    reader.close()


def test_a_batch_does_not_wait_for_a_coordinator_and_the_newest_position_arrives(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: alarms stood still while the coordinator of positions was away."""
    answered = threading.Event()
    commit, named = Consumer.commit, []

    def late(consumer: Consumer, ends: dict[TopicPartition, int], *rest: Any, **more: Any) -> None:
        named.append(dict(ends))
        assert answered.wait(60)
        commit(consumer, ends, *rest, **more)

    monkeypatch.setattr(Consumer, "commit", late)
    positions, reader = opened(bus), opened(bus)
    positions.read()
    for end in range(1, 100):
        positions.commit_soon({A: end, B: 1})
    assert len(named) <= 1, "one at a time"
    answered.set()
    while reader.read() != {A: 99, B: 1}:  # ends by the test's own time limit
        pass
    assert len(named) <= 3, "what was newest, and not each"
    positions.close()
    reader.close()


def test_a_group_commits_once_a_second_whatever_the_number_of_batches(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: a commit for each batch, seven a second, was a gigabyte a day."""
    named: list[dict[TopicPartition, int]] = []
    commit = Consumer.commit

    def counted(
        consumer: Consumer, ends: dict[TopicPartition, int], *rest: Any, **more: Any
    ) -> None:
        named.append(dict(ends))
        commit(consumer, ends, *rest, **more)

    monkeypatch.setattr(Consumer, "commit", counted)
    monkeypatch.setattr("spark_apps.source.group_positions.COMMIT_EVERY_S", 3600.0)
    positions = opened(bus)
    positions.read()
    commit_now(positions, {A: 1, B: 1})
    for end in range(2, 100):
        positions.commit_soon({A: end})
    assert named == [{A: 1, B: 1}]
    positions.close()
    assert named == [{A: 1, B: 1}, {A: 99, B: 1}], "at its stop what waits is committed"


@pytest.mark.parametrize("ask", [GroupPositions.commit_soon, GroupPositions.publish])
def test_what_no_batch_follows_is_committed_when_its_second_is_over(
    bus: BusSettings, ask: Callable[[GroupPositions, dict[TopicPartition, int]], None]
) -> None:
    """The lag of a topic that has become quiet would stand for ever."""
    positions, reader = opened(bus), opened(bus)
    positions.read()
    for end in (1, 2, 3):
        ask(positions, {A: end, B: 1})
    while reader.read() != {A: 3, B: 1}:  # ends by the test's own time limit
        pass
    positions.close()
    reader.close()


def test_a_commit_that_waits_names_no_topic_that_was_made_anew_meanwhile(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ends were of the former one."""
    monkeypatch.setattr("spark_apps.source.group_positions.COMMIT_EVERY_S", 3600.0)
    positions = opened(bus)
    positions.read()
    commit_now(positions, {A: 1, B: 1})
    positions.commit_soon({A: 50})
    positions.restart(cluster_of(bus))
    positions.close()
    reader = opened(bus)
    assert reader.read() == {A: 1, B: 1}
    reader.close()


def test_a_commit_that_was_given_up_fails_a_later_batch(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that cannot commit must not go on for ever: what it repeats would only grow."""
    positions = opened(bus)
    positions.read()

    def refused(*_: Any, **__: Any) -> None:
        raise BusError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "test")

    monkeypatch.setattr(Consumer, "commit", refused)
    with pytest.raises(BusError, match="test"):
        while True:  # ends by the test's own time limit
            positions.commit_soon({A: 1})
    positions.close()


def test_a_stop_waits_for_the_last_commit(bus: BusSettings) -> None:
    """Nothing is repeated after an orderly one."""
    positions = opened(bus)
    positions.read()
    positions.commit_soon({A: 3, B: 4})
    positions.close()
    reader = opened(bus)
    assert reader.read() == {A: 3, B: 4}
    reader.close()


def test_what_another_topic_s_id_stands_at_keeps_nobody_from_committing(bus: BusSettings) -> None:
    """A position of an earlier topic of that name is higher and means nothing."""
    cluster = cluster_of(bus)
    earlier = ClusterIdentity(cluster.cluster_id, {DATA_FACE: "earlier"}, cluster.partitions)
    before = opened(bus, earlier)
    commit_now(before, {A: 500})
    before.close()
    after = opened(bus)
    after.read()
    commit_now(after, {A: 1})
    after.close()
    reader = opened(bus)
    assert reader.read() == {A: 1}
    reader.close()
