"""A topic that is deleted and made anew at the source under a running mirror."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bus.contracts import headers
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster
from tests.dr_mirror.copy.test_copying import create, delete, delete_records
from tests.dr_mirror.switch.test_switch import both_sites
from tests.dr_mirror.two_sites import TwoSites, mirrored, start_site, wait_until

STEPS = ("in a file", "deleted at the target")
PARTITIONS = 3


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    folder = tmp_path_factory.mktemp("sites")
    source, target = start_site(folder / "a", 1), start_site(folder / "b", 2)
    yield source, target
    for cluster in (source, target):
        for node in cluster.plan:
            cluster.kill(node)


@pytest.fixture
def sites(clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path) -> Iterator[TwoSites]:
    source, target = clusters
    with mirrored(tmp_path / "mirror", source.mirror_bootstrap, target) as found:
        yield found


def send(cluster: RunningCluster, topic: str, life: str, records: int, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(records):
        said = [(headers.RECORD_ID, f"{life}-{number}".encode())]
        producer.produce(topic, f"{life}", partition=number % partitions, headers=said)
    assert producer.flush(30) == 0


def copy_anew_killed_after(sites: TwoSites, topic: str, step: str) -> None:
    """The command, with SIGKILL once it has said that a step is done; or it ends before."""
    process = subprocess.Popen(
        [*sites.mirror.words, "mirror", "copy-anew", topic], cwd=PROJECT_ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(step):
            process.kill()
            break
    process.wait()


def ids_in_files(folder: Path) -> list[str]:
    return sorted(
        json.loads(line)["id"]
        for path in folder.rglob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    )


def detail_of(sites: TwoSites, topic: str) -> str:
    found = sites.mirror.status()
    return next(one.detail for one in found.topics if one.topic == topic)


@pytest.mark.slow
def test_a_topic_made_anew_is_named_the_old_one_is_kept_and_one_command_begins_the_new_one(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """The command is the one that the message names; killed anywhere, it goes on."""
    source, _ = clusters
    topic, well = "data.vehicle", "data.face"
    for name in (topic, well):
        create(source, name, PARTITIONS)
        send(source, name, "old", 60, PARTITIONS)
        sites.wait_until_copied(name, PARTITIONS)
    delete(source, topic)
    partitions = PARTITIONS + dice.randrange(2)
    create(source, topic, partitions)
    records = dice.choice([0, 30, 300])
    send(source, topic, "new", records, partitions)
    wait_until(
        lambda: sites.mirror.state_of(topic) == "recreated_at_source", "the new topic is named"
    )
    assert f"databus mirror copy-anew {topic}" in detail_of(sites, topic)
    assert [sites.target.ends(topic, each) for each in range(PARTITIONS)] == [(0, 20)] * PARTITIONS

    for wrong in (well, "data.nothing"):
        refused = sites.mirror.command("copy-anew", wrong)
        assert refused.returncode == 1, refused.stdout
    assert sites.target.ends(well, 0) == (0, 20)

    copy_anew_killed_after(sites, topic, dice.choice(STEPS))
    words = detail_of(sites, topic).partition("databus mirror ")[2].split() or ["copy-anew", topic]
    done = sites.mirror.command(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    sites.wait_until_copied(topic, partitions)
    sites.assert_equal(topic, partitions)
    sites.assert_equal(well, PARTITIONS)
    kept = ids_in_files(sites.mirror.folder / "mirror" / "kept")
    assert kept == sorted(f"old-{n}" for n in range(60))
    send(source, topic, "more", 30, partitions)
    sites.wait_until_copied(topic, partitions)
    again = sites.mirror.command("copy-anew", topic, "--json")
    assert json.loads(again.stdout)["records"] == 60, "what was done is said again, and no more done"
    sites.assert_equal(topic, partitions)


@pytest.mark.slow
def test_what_was_made_anew_while_the_mirror_was_away_is_begun_by_the_same_command(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """Shorter or longer than the old one, whose records may all have been deleted: then no batch is
    left to be compared, and what lies below the old one's end was left out without a word."""
    source, _ = clusters
    topic, left = "data.away", dice.choice([0, 40])
    create(source, topic)
    send(source, topic, "old", 40, 1)
    sites.wait_until_copied(topic, 1)
    if not left:
        delete_records(source, topic, 40)
        wait_until(lambda: sites.target.ends(topic, 0) == (40, 40), "the deletion is passed on")
    sites.mirror.kill()
    delete(source, topic)
    create(source, topic)
    send(source, topic, "new", dice.choice([10, 90]), 1)
    sites.mirror.start()
    wait_until(lambda: sites.mirror.state_of(topic) == "recreated_at_source", "another log is named")
    done = sites.mirror.command("copy-anew", topic, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["records"] == left
    sites.wait_until_copied(topic, 1)
    sites.assert_equal(topic, 1)


@pytest.mark.slow
def test_what_was_made_anew_with_fewer_partitions_while_the_mirror_was_away_is_named_as_another_topic(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, dice: random.Random
):
    """Not as one that somebody at the target has given more partitions, which would be copied on."""
    source, _ = clusters
    topic = "data.fewer"
    create(source, topic, PARTITIONS)
    send(source, topic, "old", 30, PARTITIONS)
    sites.wait_until_copied(topic, PARTITIONS)
    sites.mirror.kill()
    delete(source, topic)
    create(source, topic, PARTITIONS - 1)
    send(source, topic, "new", dice.choice([0, 60]), PARTITIONS - 1)
    sites.mirror.start()
    wait_until(
        lambda: sites.mirror.state_of(topic) == "recreated_at_source", "another topic is named"
    )
    done = sites.mirror.command("copy-anew", topic, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["records"] == 30
    sites.wait_until_copied(topic, PARTITIONS - 1)
    sites.assert_equal(topic, PARTITIONS - 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_topic_begun_anew_at_each_site_in_turn_is_copied_by_one_process_whichever_way_it_goes(
    tmp_path: Path, dice: random.Random
):
    """A → B → A → B: each primary makes the topic anew once, and one command begins it at the other
    site. No id of an earlier turn makes the mirror call the present topic another one."""
    topic = "data.vehicle"
    with both_sites(tmp_path) as sites:
        create(sites.clusters["A"], topic, 4)
        for primary, other in (("A", "B"), ("B", "A"), ("A", "B")):
            cluster = sites.clusters[primary]
            send(cluster, topic, "old", dice.choice([1, 40]), 4)
            sites.wait_until_copying(primary)
            delete(cluster, topic)
            create(cluster, topic, 4)
            send(cluster, topic, "new", dice.choice([1, 80]), 4)
            wait_until(
                lambda: sites.mirror.state_of(topic) == "recreated_at_source", f"named at {primary}"
            )
            done = sites.mirror.command("copy-anew", topic)
            assert done.returncode == 0, done.stdout + done.stderr
            sites.wait_until_copying(primary)
            sites.assert_equal(topic)
            switched = sites.switch(other)
            assert switched.returncode == 0, switched.stdout + switched.stderr
            send(sites.clusters[other], topic, "more", 8, 4)
            sites.wait_until_copying(other)
            sites.assert_equal(topic)
