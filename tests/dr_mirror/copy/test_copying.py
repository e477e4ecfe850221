"""The role `mirror` between two real clusters of ours."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bus.client.admin import commands
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import decode_confirmed
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED
from bus.protocol.apis import ApiKey
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bus.records.read import read_records
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from tests.dr_mirror.two_sites import (
    SOURCE_PROPERTIES,
    MirrorProcess,
    SiteReader,
    TwoSites,
    mirrored,
    start_target,
    wait_until,
)

CODECS = ("gzip", "lz4", "zstd", "snappy", "none")
TOPIC_OF_TEN = "data.vehicle"
PARTITIONS = 10


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    folder = tmp_path_factory.mktemp("sites")
    source = start_cluster(folder / "a", brokers=1, properties=SOURCE_PROPERTIES)
    target = start_target(folder / "b")
    yield source, target
    for each in (source, target):
        each.kill(1)


@pytest.fixture
def sites(tmp_path: Path, clusters: tuple[RunningCluster, RunningCluster]) -> Iterator[TwoSites]:
    with mirrored(tmp_path / "mirror", clusters[0].bootstrap, clusters[1]) as both:
        yield both


def create(cluster: RunningCluster, topic: str, partitions: int = 1, **configs: str) -> None:
    keys = {name.replace("_", "."): value for name, value in configs.items()}
    with SyncClient(cluster.bootstrap, "test") as client:
        commands.create_topic(client, topic, partitions=partitions, configs=keys)


def delete(cluster: RunningCluster, topic: str) -> None:
    with SyncClient(cluster.bootstrap, "test") as client:
        commands.delete_topic(client, topic)


def free_topic(cluster: RunningCluster, topic: str) -> None:
    """What the states' remedies call so."""
    change = [("mirror.source.cluster.id", AlterConfigOp.DELETE, None)]
    with SyncClient(cluster.bootstrap, "test") as client:
        commands.alter_configs(client, {(TOPIC, topic): change})


def delete_records(cluster: RunningCluster, topic: str, offset: int) -> None:
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    with SyncClient(cluster.bootstrap, "test") as client:
        answer = client.request_node(1, ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], 10_000))
    assert answer.topics[0].partitions[0].error_code == 0


def send(cluster: RunningCluster, topic: str, count: int, codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec,
                         "enable.idempotence": True, "linger.ms": 1})  # fmt: skip
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=0)
    assert producer.flush(30) == 0


class SendingCity:
    """Idempotent producers with every codec, in threads, until stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, dice: random.Random) -> None:
        self._topic, self._partitions = topic, partitions
        self._stopping = threading.Event()
        self.acknowledged = 0
        self._threads = [
            threading.Thread(target=self._send, args=(bootstrap, codec, random.Random(dice.random())))
            for codec in CODECS
        ]
        for thread in self._threads:
            thread.start()

    def _send(self, bootstrap: str, codec: str, dice: random.Random) -> None:
        producer = Producer({
            "bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True,
            "linger.ms": 2, "message.timeout.ms": 120_000, "reconnect.backoff.max.ms": 200,
        })  # fmt: skip
        while not self._stopping.is_set():
            for _ in range(20):
                value = dice.randbytes(30) + bytes(dice.randrange(300))
                producer.produce(
                    self._topic, value, partition=dice.randrange(self._partitions),
                    on_delivery=self._on_delivery,
                )  # fmt: skip
            producer.poll(0.01)
        assert producer.flush(100) == 0

    def _on_delivery(self, error: object, _: object) -> None:
        self.acknowledged += error is None

    def wait_for_more(self, records: int) -> None:
        wanted = self.acknowledged + records
        wait_until(lambda: self.acknowledged > wanted, "more records are acknowledged")

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
def test_what_is_sent_with_every_codec_is_the_same_bytes_at_the_same_offsets(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """Ten partitions, idempotent producers, while it is sent; then status and comparison agree."""
    create(clusters[0], TOPIC_OF_TEN, PARTITIONS)
    city = SendingCity(clusters[0].bootstrap, TOPIC_OF_TEN, PARTITIONS, dice)
    try:
        wait_until(lambda: city.acknowledged > 5000, "sending")
    finally:
        city.stop()
    sites.wait_until_copied(TOPIC_OF_TEN, PARTITIONS)
    assert sites.assert_equal(TOPIC_OF_TEN, PARTITIONS) > PARTITIONS
    wait_until(lambda: sites.mirror.status().rpo_s == 0, "the RPO is 0")
    wait_until(lambda: sites.mirror.command("status", "--json").returncode == 0, "it is known")
    said = sites.mirror.command("status", "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    status = json.loads(said.stdout)
    assert sum(one["copied_records"] for one in status["partitions"]) == city.acknowledged
    assert {one["lag_records"] for one in status["partitions"]} == {0}
    compared = sites.mirror.command("verify", "--json", "--block-offsets", "100")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    rows = json.loads(compared.stdout)
    assert len(rows) == PARTITIONS
    assert {row["broker"] for row in rows} == {1}
    assert {row["differs_at"] for row in rows} == {-1}
    assert sum(row["end_offset"] for row in rows) == city.acknowledged
    assert sites.mirror.stop() == 0


@pytest.mark.slow
def test_what_cannot_be_copied_is_named_and_goes_on_after_its_remedy(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites
):
    """Deleted, made again, there already, too short, deleted records, more partitions."""
    source, target = clusters
    mirror = sites.mirror
    for topic in ("data.kept", "data.again", "data.short", "data.wider"):
        create(source, topic)
        send(source, topic, 20)
        sites.wait_until_copied(topic, 1)
    create(target, "data.there")
    create(source, "data.there")
    wait_until(lambda: mirror.state_of("data.there") == "not_a_mirror", "a topic that is there")

    delete_records(source, "data.short", 12)
    wait_until(lambda: sites.target.ends("data.short", 0) == (12, 20), "the deletion is passed on")

    with SyncClient(source.bootstrap, "test") as client:
        commands.add_partitions(client, "data.wider", 3)
    sites.wait_until_copied("data.wider", 3)

    delete(source, "data.kept")
    wait_until(lambda: mirror.state_of("data.kept") == "deleted_at_source", "a deletion is named")
    assert sites.target.ends("data.kept", 0) == (0, 20)

    delete(source, "data.again")
    create(source, "data.again")
    send(source, "data.again", 30, "gzip")
    wait_until(lambda: mirror.state_of("data.again") == "recreated_at_source", "a new topic is named")
    assert sites.target.ends("data.again", 0) == (0, 20)
    said = mirror.command("status")
    assert said.returncode == 1
    assert "recreated_at_source" in said.stdout
    mirror.kill()
    mirror.start()  # no state of its own: the target's topic says whose copy it is
    wait_until(lambda: mirror.state_of("data.again") == "recreated_at_source", "it is named again")
    done = mirror.command("copy-anew", "data.again")
    assert done.returncode == 0, done.stdout + done.stderr
    sites.wait_until_copied("data.again", 1)
    sites.assert_equal("data.again", 1)


def send_one_batch(cluster: RunningCluster, topic: str, count: int) -> None:
    """Records that come and go together."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5_000,
                         "batch.num.messages": count})  # fmt: skip
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=0)
    assert producer.flush(30) == 0


@pytest.mark.slow
def test_a_log_that_begins_within_a_batch_is_copied_and_what_was_deleted_is_told_exactly(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """Regression, found by the simulation: the rest of the batch counted as another history for
    ever, and to begin the topic anew did not help. Before the first copy, and behind it."""
    source, _ = clusters
    topic = "data.within"

    def copied_from_within(end: int, state: str, why: str) -> None:
        delete_records(source, topic, within)
        sites.mirror.start()
        sites.wait_until_copied(topic, 1)
        wait_until(lambda: sites.target.ends(topic, 0) == (within, end), "deleted at both sites")
        wait_until(lambda: sites.mirror.state_of(topic) == state, why)

    sites.mirror.kill()
    create(source, topic)
    send_one_batch(source, topic, 10)
    within = dice.randrange(1, 10)
    copied_from_within(10, "copying", "nothing was lost")
    sites.mirror.kill()
    send_one_batch(source, topic, 10)
    send_one_batch(source, topic, 10)
    within = dice.randrange(11, 30)
    copied_from_within(30, "hole", "the hole is told")
    [found] = [one for one in sites.mirror.status().partitions if one.topic == topic]
    assert found.missing == within - 10
    assert found.detail == f"offsets 10..{within - 1} were deleted at the source"
    assert found.detail in sites.mirror.log.read_text("utf-8")
    sites.assert_equal(topic, 1)


@pytest.mark.slow
def test_a_newer_mirror_fences_the_older_one_and_nothing_comes_twice(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, tmp_path: Path, dice: random.Random
):
    """Both run at once on the same topics."""
    source, target = clusters
    create(source, "data.two", 4)
    city = SendingCity(source.bootstrap, "data.two", 4, dice)
    try:
        wait_until(lambda: city.acknowledged > 500, "sending")
        wait_until(lambda: sites.target.ends("data.two", 0)[1] > 0, "copying")
        with mirrored(tmp_path / "other", source.bootstrap, target) as other:
            wait_until(lambda: sites.mirror.state_of("data.two") == "fenced", "the older is fenced")
            city.wait_for_more(500)
            city.stop()
            other.wait_until_copied("data.two", 4)
            other.assert_equal("data.two", 4)
            assert sites.mirror.process is not None
            assert sites.mirror.process.poll() is None, "it stays, so that no supervisor restarts it"
    finally:
        city.stop()


def consumer(cluster: RunningCluster, group: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })  # fmt: skip


def committed(cluster: RunningCluster, group: str, topic: str) -> int:
    asked = consumer(cluster, group)
    try:
        return asked.committed([TopicPartition(topic, 0)], 10)[0].offset
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:
            raise
        return -1  # the topic of offsets is being made there
    finally:
        asked.close()


def read_and_commit(reader: Consumer, records: int) -> int:
    """The offset behind the last of so many records, committed."""
    last = None
    for _ in range(records):
        last = reader.poll(60)
        assert last is not None
        assert not last.error()
    assert last is not None
    reader.commit(last, asynchronous=False)
    return last.offset() + 1


@pytest.mark.slow
def test_a_group_goes_on_at_the_second_site_where_it_stood(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites
):
    """But not our applications', nor one that has members there."""
    source, target = clusters
    create(source, "data.groups")
    send(source, "data.groups", 100, "lz4")
    sites.wait_until_copied("data.groups", 1)
    at_a, own = consumer(source, "readers"), consumer(source, "streams-ingest")
    for each in (at_a, own):
        each.subscribe(["data.groups"])
        assert read_and_commit(each, 40) == 40
    wait_until(lambda: committed(target, "readers", "data.groups") == 40, "the offset is copied")
    assert committed(target, "streams-ingest", "data.groups") < 0
    at_b = consumer(target, "readers")
    at_b.subscribe(["data.groups"])
    assert at_b.poll(60).offset() == 40
    assert read_and_commit(at_a, 50) == 90
    refused = "readers are not copied"
    wait_until(lambda: refused in sites.mirror.log.read_text("utf-8"), "the members are seen")
    assert committed(target, "readers", "data.groups") == 40
    at_b.close()
    wait_until(lambda: committed(target, "readers", "data.groups") == 90, "nobody reads there now")
    at_a.close()
    own.close()


@pytest.mark.slow
def test_a_bit_flipped_on_the_second_site_s_disk_is_named_with_its_offset(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """The comparison names the batch, whatever its block."""
    source, target = clusters
    create(source, "data.flipped")
    for _ in range(20):
        send(source, "data.flipped", 5)
    sites.wait_until_copied("data.flipped", 1)
    batches = sites.target.batches("data.flipped", 0)
    chosen = dice.randrange(1, len(batches) - 1)
    base_offset = batches[chosen][0]
    before = sum(len(raw) + 4 for _, _, raw in batches[:chosen])
    target.terminate(1)
    [segment] = (target.plan[1].directory / "logs").rglob("data.flipped-0/*.log")
    stored = bytearray(segment.read_bytes())
    stored[before + 61 + dice.randrange(20)] ^= 1 << dice.randrange(8)
    segment.write_bytes(stored)
    target.restart(1)
    said = sites.mirror.command("verify", "--topic", "data.flipped", "--block-offsets", "7", "--json")
    assert said.returncode == 1, said.stdout + said.stderr
    [row] = json.loads(said.stdout)
    assert (row["differs_at"], row["detail"]) == (base_offset, "the batch differs")
    assert f"在偏移量 {base_offset} 处不同" in sites.mirror.command("verify").stdout


@pytest.mark.slow
def test_a_limited_link_and_a_small_buffer_slow_the_copy_and_lose_nothing(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path
):
    """A megabyte over a link of 400 kB a second takes its time."""
    source, target = clusters
    create(source, "data.slow")
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 1})
    for number in range(1000):
        producer.produce("data.slow", bytes([number % 256]) * 1000)
    assert producer.flush(30) == 0
    begun = time.monotonic()
    limits = {
        "link_bytes_per_s": "400000", "buffer_bytes": "100000", "fetch_bytes": "50000",
        "partition_fetch_bytes": "20000", "append_bytes": "30000", "white_list": '["data[.]slow"]',
        "socket_receive_buffer_bytes": "65536", "socket_send_buffer_bytes": "65536",
    }  # fmt: skip
    with mirrored(tmp_path / "slow", source.bootstrap, target, **limits) as both:
        both.wait_until_copied("data.slow", 1)
        assert time.monotonic() - begun > 1.2  # a burst of a second is free
        both.assert_equal("data.slow", 1)


@pytest.mark.slow
def test_one_cluster_and_equal_sites_are_refused_with_the_remedy(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path
):
    """The role ends with a sentence, in the site's language."""
    _, target = clusters
    for name, own, words in (
        ("same", target.bootstrap, "同一集群"), ("none", "", "source_bootstrap_servers is empty"),
    ):  # fmt: skip
        mirror = MirrorProcess(tmp_path / name, own, target.mirror_bootstrap).start()
        assert mirror.process is not None
        assert mirror.process.wait(30) == 1
        assert words in mirror.log.read_text("utf-8")
        assert "Traceback" not in mirror.log.read_text("utf-8")


def newest_confirmed(cluster: RunningCluster) -> dict[tuple[str, int], int]:
    """What the topic says last of each partition."""
    found: dict[tuple[str, int], int] = {}
    for _, _, raw in SiteReader(cluster.bootstrap).batches(CONTROL_MIRROR_CONFIRMED, 0):
        for record in read_records(raw[:12] + bytes(4) + raw[12:]):
            said = decode_confirmed(bytes(record.value or b""))
            assert said is not None
            found[said.topic, said.partition] = said.offset
    return found


@pytest.mark.slow
def test_both_sites_are_told_how_far_the_second_one_has_each_partition(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites
):
    """Nowhere more than the second site holds, and in the end all of it."""
    create(clusters[0], "data.confirmed", 2)
    for number in range(5):
        send(clusters[0], "data.confirmed", 50)
        if number == 0:
            sites.wait_until_some("data.confirmed")
            wait_until(lambda: all(newest_confirmed(one) for one in clusters), "something is said")
        confirmed = [newest_confirmed(one).get(("data.confirmed", 0), 0) for one in clusters]
        assert max(confirmed) <= sites.target.ends("data.confirmed", 0)[1]
    wanted = {("data.confirmed", 0): 250, ("data.confirmed", 1): 0}
    for cluster in clusters:
        wait_until(lambda each=cluster: wanted.items() <= newest_confirmed(each).items(), "all is said")
