"""Apache Kafka 4.4 as the source: transactions and compacted topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.servers.process import JavaServer
from tests.dr_mirror.two_sites import TwoSites, mirrored, start_target, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow]

Read = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture
def sites(tmp_path: Path, apache_kafka: JavaServer) -> Iterator[TwoSites]:
    target = start_target(tmp_path / "b")
    try:
        with mirrored(tmp_path / "mirror", apache_kafka.address, target) as both:
            yield both
    finally:
        target.kill(1)


@pytest.fixture
def target_bootstrap(sites: TwoSites) -> str:
    return sites.target._bootstrap


def create(bootstrap: str, name: str, **config: str) -> None:
    keys = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1, config=keys)]).values():
        future.result(30)


def producer(bootstrap: str, transactional_id: str = "", **more: object) -> Producer:
    config = {"bootstrap.servers": bootstrap, "linger.ms": 1, **more}
    if transactional_id:
        config["transactional.id"] = transactional_id
    made = Producer(config)
    if transactional_id:
        made.init_transactions(30)
    return made


def read_committed(bootstrap: str, topic: str) -> Read:
    """What such a consumer gets up to the last stable offset."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "read", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Read = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():  # the end of the partition
            consumer.close()
            return found
        found.append((message.offset(), message.key(), message.value()))


def send(to: Producer, topic: str, *values: bytes) -> None:
    for value in values:
        to.produce(topic, value)
    assert to.flush(30) == 0


def test_a_read_committed_consumer_gets_at_b_what_it_got_at_a(
    sites: TwoSites, apache_kafka: JavaServer, target_bootstrap: str
):
    """Committed, aborted and open transactions, and records without one between them."""
    bootstrap, topic = apache_kafka.address, "data.transactions"
    create(bootstrap, topic)
    plain = producer(bootstrap, **{"compression.type": "zstd"})
    one, two, left_open = (producer(bootstrap, f"mirror-{name}") for name in ("one", "two", "open"))
    one.begin_transaction()
    two.begin_transaction()
    send(one, topic, b"committed 1", b"committed 2")
    send(two, topic, b"aborted 1")
    send(plain, topic, b"plain 1")
    two.abort_transaction(30)
    one.commit_transaction(30)
    one.begin_transaction()
    send(one, topic, b"committed 3")
    one.commit_transaction(30)
    left_open.begin_transaction()
    send(left_open, topic, b"open 1")
    send(plain, topic, b"plain 2 behind the open one")
    sites.wait_until_copied(topic, 1)
    sites.assert_equal(topic, 1)
    at_a = read_committed(bootstrap, topic)
    assert [value for _, _, value in at_a] == [
        b"committed 1", b"committed 2", b"plain 1", b"committed 3",
    ]  # fmt: skip
    assert read_committed(target_bootstrap, topic) == at_a
    left_open.commit_transaction(30)
    sites.wait_until_copied(topic, 1)
    at_a = read_committed(bootstrap, topic)
    assert [value for _, _, value in at_a][-2:] == [b"open 1", b"plain 2 behind the open one"]
    assert read_committed(target_bootstrap, topic) == at_a


def test_the_holes_of_a_compacted_topic_are_the_same_at_b(
    sites: TwoSites, apache_kafka: JavaServer, target_bootstrap: str
):
    """Some compacted before the mirror comes, some while it copies."""
    bootstrap, topic = apache_kafka.address, "data.compacted"
    sites.mirror.kill()
    create(
        bootstrap, topic, cleanup_policy="compact", segment_bytes="1048576", segment_ms="100",
        min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="200",
    )  # fmt: skip
    writer = producer(bootstrap, **{"batch.num.messages": 3})
    for number in range(200):
        writer.produce(topic, f"{number}", f"{number % 5}")
        if number % 10 == 9:
            assert writer.flush(30) == 0

    def has_holes() -> bool:
        found = sites.source.batches(topic, 0)
        return any(one[1] < other[0] for one, other in pairwise(found))

    wait_until(lambda: _tick(writer, topic) and has_holes(), "the source compacts", 90)
    sites.mirror.start()
    sites.wait_until_copied(topic, 1)
    # The source may go on compacting: what B has is then more, never less, and ends the same.
    newest = {key: value for _, key, value in read_committed(bootstrap, topic)}
    assert {key: value for _, key, value in read_committed(target_bootstrap, topic)} == newest
    compared = sites.mirror.command("verify", "--topic", topic, "--json")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    [row] = json.loads(compared.stdout)
    assert (row["skipped"], row["differs_at"]) == ("", -1)
    assert row["keys"] >= 5  # the ticks are one more
    ours = sites.target.batches(topic, 0)
    assert any(one[1] < other[0] for one, other in pairwise(ours))
    theirs = {one[0]: one for one in sites.source.batches(topic, 0)}
    assert ours[-1] == theirs[ours[-1][0]]


def _tick(writer: Producer, topic: str) -> bool:
    """One more record, so that the active segment rolls and the cleaner has something to clean."""
    writer.produce(topic, b"tick", b"tick")
    return writer.flush(30) == 0
