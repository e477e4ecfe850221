"""The comparison that goes on all the time, between two real clusters: every replica's disk."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bus.client.admin import queries
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror_status import ReplicaDifference, TopicProof
from bus.runtime.wall_clock import now_ms
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.two_sites import (
    ALONE,
    SOURCE_PROPERTIES,
    TwoSites,
    mirrored,
    start_pair_of_brokers,
    wait_until,
)

SOON = {
    "proof_interval_s": "0.3", "proof_recent_s": "3600", "proof_scrub_s": "3600",
    "topic_refresh_s": "0.5",
}  # fmt: skip
"""All that is copied is recent, and the scrub does not come."""
SCRUB = {**SOON, "proof_recent_s": "0.1", "proof_scrub_s": "0.5"}
"""Only the last block, which is not whole yet, is recent; the others are found by the scrub."""
OLD = 2000
"""Below it are whole blocks."""


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    folder = tmp_path_factory.mktemp("sites")
    source = start_cluster(
        folder / "a", brokers=1, mirror_listener=True, properties={**ALONE, **SOURCE_PROPERTIES}
    )
    target = start_pair_of_brokers(folder / "b", 2)
    yield source, target
    for cluster in (source, target):
        for node in cluster.plan:
            cluster.kill(node)


def replicas(cluster: RunningCluster, topic: str) -> tuple[int, int]:
    """The leader of the first partition, and its follower."""
    with SyncClient(cluster.bootstrap, "test") as client:
        [found] = queries.topics(client, [topic])
    leader = found.partitions[0].leader
    return leader, next(each for each in found.partitions[0].replicas if each != leader)


def log_file(cluster: RunningCluster, node: int, topic: str) -> Path:
    [segment] = cluster.plan[node].directory.rglob(f"{topic}-0/00000000000000000000.log")
    return segment


def flip(
    cluster: RunningCluster,
    node: int,
    sites: TwoSites,
    topic: str,
    dice: random.Random,
    below: int = 1 << 60,
    first: int = 1,
) -> int:
    """One bit in the records of a batch on this broker's disk; the batch's base offset."""
    batches = sites.target.batches(topic, 0)
    begin = max(1, sum(1 for batch in batches if batch[0] < first))
    chosen = dice.randrange(begin, sum(1 for batch in batches[:-1] if batch[0] < below))
    before = sum(len(raw) + 4 for _, _, raw in batches[:chosen])
    path = log_file(cluster, node, topic)
    with path.open("r+b") as file:
        file.seek(before + 61 + dice.randrange(20))
        [stored] = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([stored ^ (1 << dice.randrange(8))]))
    return batches[chosen][0]


def proof(sites: TwoSites, topic: str) -> TopicProof | None:
    return next((one for one in sites.mirror.status().proof.topics if one.topic == topic), None)


def is_proven(sites: TwoSites, topic: str) -> bool:
    found = proof(sites, topic)
    if found is None:
        return False
    return found.complete_to_ms > 0 and found.blocks > 0 and not found.unproven_blocks


def differences(sites: TwoSites, topic: str) -> list[ReplicaDifference]:
    return [one for one in sites.mirror.status().proof.differences if one.topic == topic]


def send_batches(
    cluster: RunningCluster, topic: str, batches: int, records: int, at_ms: int = 0
) -> None:
    """`at_ms` 0: now."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for _ in range(batches):
        for number in range(records):
            producer.produce(topic, f"{number}", partition=0, timestamp=at_ms)
        assert producer.flush(30) == 0


def fill(clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, topic: str) -> None:
    create(clusters[0], topic)
    send_batches(clusters[0], topic, 20, 7)
    sites.wait_until_copied(topic, 1)
    wait_until(lambda: is_proven(sites, topic), f"{topic} is proven")


def found_on(sites: TwoSites, topic: str, broker: int, offset: int) -> ReplicaDifference:
    """The one difference of the topic, which is there."""
    wait_until(lambda: differences(sites, topic), "the flipped bit is found")
    [found] = differences(sites, topic)
    assert (found.partition, found.broker, found.first_offset) == (0, broker, offset)
    assert found.end_offset > offset
    return found


@pytest.mark.slow
def test_a_bit_flipped_on_a_follower_s_disk_is_named_until_the_remedy_is_done(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path, dice: random.Random
):
    """Broker, directory, partition, offsets, by status and comparison; then the folder is moved away."""
    source, target = clusters
    topic = "data.flipped"
    with mirrored(tmp_path / "mirror", source.mirror_bootstrap, target, **SOON) as sites:
        fill(clusters, sites, topic)
        _, follower = replicas(target, topic)
        path = log_file(target, follower, topic)
        found = found_on(sites, topic, follower, flip(target, follower, sites, topic, dice))
        assert Path(found.directory) == path.parent.parent
        said = sites.mirror.command("status")
        assert said.returncode == 1
        assert f"broker {follower}" in said.stdout
        unproven = proof(sites, topic)
        assert unproven is not None
        assert unproven.complete_to_ms == -1
        said = sites.mirror.command("verify", "--topic", topic, "--replicas", "--json")
        assert said.returncode == 1, said.stdout + said.stderr
        rows = {row["broker"]: row for row in json.loads(said.stdout)}
        assert len(rows) == 2
        assert {broker for broker, row in rows.items() if row["differs_at"] >= 0} == {follower}
        assert rows[follower]["differing"] == [[found.first_offset, found.end_offset]]
        target.terminate(follower)
        shutil.move(path.parent, tmp_path / "moved away")
        checkpoint = path.parent.parent / "recovery-point-offset-checkpoint"
        lines = checkpoint.read_text().splitlines(keepends=True)
        checkpoint.write_text("".join(line for line in lines if not line.startswith(f"{topic} 0 ")))
        target.restart(follower)
        wait_until(lambda: not differences(sites, topic) and is_proven(sites, topic), "it is well")


@pytest.mark.slow
@pytest.mark.rotates("what is compared again")
def test_a_bit_flipped_in_the_last_hour_s_records_is_named_though_they_were_there_before_the_mirror(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path, dice: random.Random
):
    """A mirror that begins anew beside 5,000 records of this hour and as many of yesterday: it
    called none of them recent, and left the bit for the scrub."""
    source, target = clusters
    topic = "data.before"
    with mirrored(tmp_path / "mirror", source.mirror_bootstrap, target, **SOON) as sites:
        create(source, topic)
        send_batches(source, topic, 25, 200, now_ms() - 25 * 3_600_000)
        send_batches(source, topic, 25, 200)
        sites.wait_until_copied(topic, 1)
    with mirrored(tmp_path / "anew", source.mirror_bootstrap, target, **SOON) as sites:
        wait_until(lambda: is_proven(sites, topic), "all is proven once")
        _, follower = replicas(target, topic)
        at = flip(target, follower, sites, topic, dice, first=5_000)
        found_on(sites, topic, follower, at)


@pytest.mark.slow
@pytest.mark.rotates("what is compared again")
def test_a_source_without_digests_is_fetched_once_and_its_records_speak_for_it_then(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path, dice: random.Random
):
    """As Apache Kafka, or our broker on an ordinary listener."""
    source, target = clusters
    topic = "data.fetched"
    with mirrored(tmp_path / "mirror", source.bootstrap, target, **SOON) as sites:
        create(source, topic)
        send_batches(source, topic, 11, 200)
        sites.wait_until_copied(topic, 1)
        wait_until(lambda: is_proven(sites, topic), f"{topic} is proven")
        _, follower = replicas(target, topic)
        path = log_file(target, follower, topic)
        sound = path.read_bytes()
        found_on(sites, topic, follower, flip(target, follower, sites, topic, dice))
        path.write_bytes(sound)
        wait_until(lambda: is_proven(sites, topic), "the repair is seen")


@pytest.mark.slow
@pytest.mark.rotates("what is compared again")
def test_a_bit_flipped_in_what_is_old_is_found_by_the_scrub_also_after_the_first_site_is_lost(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path, dice: random.Random
):
    """The records of blocks say what the source had. Without it a whole block is named."""
    source, target = clusters
    topic = "data.old"
    with mirrored(tmp_path / "mirror", source.mirror_bootstrap, target, **SCRUB) as sites:
        create(source, topic)
        send_batches(source, topic, 11, 200)
        sites.wait_until_copied(topic, 1)
        wait_until(lambda: is_proven(sites, topic), "all is proven")
        leader, follower = replicas(target, topic)
        path = log_file(target, follower, topic)
        sound = path.read_bytes()
        offset = flip(target, follower, sites, topic, dice, OLD)
        found_on(sites, topic, follower, offset)
        path.write_bytes(sound)
        wait_until(lambda: not differences(sites, topic), "the repair is seen")

        source.kill(1)
        try:
            offset = flip(target, leader, sites, topic, dice, OLD)
            wait_until(lambda: differences(sites, topic), "it is found without the source")
            [found] = differences(sites, topic)
            begin = offset // 1000 * 1000
            assert (found.broker, found.first_offset, found.end_offset) == (
                leader,
                begin,
                begin + 1000,
            )
        finally:
            source.restart(1)
