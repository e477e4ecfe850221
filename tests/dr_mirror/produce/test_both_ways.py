"""Two sites that copy to each other: topics have the alias of their site in front at the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.servers.databus_cluster import RunningCluster
from deploy.servers.process import JavaServer
from tests.dr_mirror.produce.test_to_apache_kafka import (
    _committed,
    _is_committed,
    _translated,
    target,
)
from tests.dr_mirror.two_sites import MirrorProcess, SiteReader, start_site, wait_until

__all__ = ["target"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC, GROUP = "data.vehicle", "readers"
PREFIXES = {"mirror.topic_prefixes": "true"}


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    both = start_site(tmp_path / "a", 1), start_site(tmp_path / "b", 2)
    try:
        yield both
    finally:
        for each in both:
            each.kill(1)


def fill(bootstrap: str, site: str, count: int) -> None:
    """A topic of the same name at each site, each with its own records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    write(bootstrap, TOPIC, site, count)


def write(bootstrap: str, topic: str, site: str, count: int) -> None:
    """Acknowledged, in both partitions."""
    sender = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5_000})
    errors: list[str] = []
    for number in range(count):
        sender.produce(
            topic, f"{site} {number}".encode(), partition=number % 2,
            on_delivery=lambda error, _: errors.append(str(error or "")),
        )  # fmt: skip
    assert sender.flush(30) == 0
    assert errors == [""] * count


def assert_copied(
    mirror: MirrorProcess, source: RunningCluster, at: RunningCluster, copy: str
) -> None:
    """Under that name, byte for byte."""
    reader, original = SiteReader(at.bootstrap), SiteReader(source.bootstrap)

    def ends(of: SiteReader, topic: str) -> list[tuple[int, int]]:
        return [of.ends(topic, partition) for partition in (0, 1)]

    wait_until(lambda: ends(reader, copy) == ends(original, TOPIC), f"{copy} is copied")
    for partition in (0, 1):
        assert reader.batches(copy, partition) == original.batches(TOPIC, partition)
    wait_until(lambda: mirror.state_of(TOPIC) == "copying", "its state")


def test_each_site_has_its_own_records_and_the_other_ones_under_another_name(
    sites: tuple[RunningCluster, RunningCluster], tmp_path: Path
):
    """Byte for byte, at the same offsets; what came from the other site does not go back."""
    a, b = sites
    fill(a.bootstrap, "A", 40)
    fill(b.bootstrap, "B", 60)
    to_b = MirrorProcess(tmp_path / "to-b", a.bootstrap, b.mirror_bootstrap, PREFIXES).start()
    back = {"mirror.source_cluster_alias": "B", "mirror.target_cluster_alias": "A", **PREFIXES}
    to_a = MirrorProcess(tmp_path / "to-a", b.bootstrap, a.mirror_bootstrap, back).start()
    try:
        assert_copied(to_b, a, b, f"A.{TOPIC}")
        assert_copied(to_a, b, a, f"B.{TOPIC}")
        # What is copied is the other site's: read-only here, and no topic of a topic of a topic.
        wait_until(lambda: to_b.state_of(f"B.{TOPIC}") in ("loop", ""), "it does not go back")
        write(a.bootstrap, TOPIC, "A", 10)
        write(b.bootstrap, TOPIC, "B", 10)
        with pytest.raises(AssertionError):
            write(b.bootstrap, f"A.{TOPIC}", "nobody", 2)
        for cluster in sites:
            names = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
            doubled = [name for name in names if name.startswith(("A.B.", "B.A.", "A.A.", "B.B."))]
            assert not doubled
        told = to_b.command("verify", "--json")
        assert told.returncode == 0, told.stdout + told.stderr
        assert TOPIC in told.stdout
        refused = to_b.command("switch", "--to", "B")
        assert refused.returncode != 0
        assert "topic_prefixes" in refused.stdout + refused.stderr
    finally:
        to_b.kill()
        to_a.kill()


def test_a_group_finds_its_place_in_the_topic_with_the_alias(
    sites: tuple[RunningCluster, RunningCluster], tmp_path: Path
):
    """It reads site A's records at site B from where it stood at A."""
    a, b = sites
    fill(a.bootstrap, "A", 40)
    mirror = MirrorProcess(tmp_path / "to-b", a.bootstrap, b.mirror_bootstrap, PREFIXES).start()
    try:
        at_a = Consumer({"bootstrap.servers": a.bootstrap, "group.id": GROUP})
        wait_until(lambda: _is_committed(at_a, TopicPartition(TOPIC, 0, 15)), "committed at A")
        at_a.close()
        at_b = Consumer({"bootstrap.servers": b.bootstrap, "group.id": GROUP})
        wait_until(lambda: _committed(at_b, f"A.{TOPIC}") == 15, "committed at B")
        at_b.close()
    finally:
        mirror.kill()


@pytest.mark.java
@pytest.mark.rotates("records and offsets at an ordinary target")
def test_apache_kafka_gets_them_under_the_names_of_mirrormaker(
    apache_kafka: JavaServer, target: JavaServer, tmp_path: Path
):
    """In transactions with their positions, and its client translates a group's offsets."""
    topic, group = "data.prefixed", "prefixed"
    admin = AdminClient({"bootstrap.servers": apache_kafka.address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    settings = {"mirror.target_api": "produce", **PREFIXES}
    mirror = MirrorProcess(tmp_path / "m", apache_kafka.address, target.address, settings).start()
    try:
        write(apache_kafka.address, topic, "A", 40)
        at_target = SiteReader(target.address)
        wait_until(lambda: at_target.ends(f"A.{topic}", 1)[1] >= 20, "all are there")
        mirror.kill()
        write(apache_kafka.address, topic, "A", 40)
        mirror.start()
        wait_until(lambda: len(_records(target.address, f"A.{topic}")) == 80, "once, after a kill")
        end = 1 + max(at for at, in_one in _records(target.address, f"A.{topic}") if not in_one)
        at_source = Consumer({"bootstrap.servers": apache_kafka.address, "group.id": group})
        wait_until(lambda: _is_committed(at_source, TopicPartition(topic, 0, 40)), "committed")
        at_source.close()
        reader = Consumer({"bootstrap.servers": target.address, "group.id": group})
        wait_until(lambda: _committed(reader, f"A.{topic}") == end, "committed at the target")
        reader.close()
        wanted = f"A.{topic} 0 {end}"
        wait_until(lambda: wanted in _translated(target.address, group), "the checkpoint")
    finally:
        mirror.kill()


def _records(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Offset and partition of each that a read_committed consumer gets."""
    reader = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "count", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    reader.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    found: list[tuple[int, int]] = []
    ends = 0
    while ends < 2:
        message = reader.poll(30)
        assert message is not None
        if message.error():
            ends += 1
        else:
            found.append((message.offset(), message.partition()))
    reader.close()
    return found
