"""What a lost site's disks hold is read from its log files, to the record."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bus.contracts import headers
from deploy.demo.two_sites.lost_logs import diverged_partitions
from deploy.servers.databus_cluster import start_cluster
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.two_sites import ALONE

TOPIC = "data.vehicle"


@pytest.mark.slow
def test_the_records_behind_an_end_are_those_of_the_replica_that_goes_furthest(tmp_path: Path):
    """Over several segments, compressed; a second copy that ends earlier; other topics apart."""
    cluster = start_cluster(tmp_path / "a", brokers=1, properties={**ALONE, "site.number": "1"})
    try:
        for topic in (TOPIC, "meter.sent"):
            create(cluster, topic, **{"segment.bytes": "1048576"})
        producer = Producer({
            "bootstrap.servers": cluster.bootstrap, "compression.type": "zstd", "linger.ms": 2,
        })  # fmt: skip
        dice = random.Random(1)
        for number in range(2_000):
            said = [(headers.RECORD_ID, f"id-{number}".encode())]
            producer.produce(TOPIC, dice.randbytes(1_000), partition=0, headers=said)
            if number % 100 == 99:
                assert producer.flush(30) == 0
        [folder] = cluster.plan[1].directory.rglob(f"{TOPIC}-0")
        assert len(list(folder.glob("*.log"))) > 1
    finally:
        for node in cluster.plan:
            cluster.kill(node)
    shutil.copytree(folder, tmp_path / "a" / "other" / folder.name)
    [*_, last] = sorted((tmp_path / "a" / "other" / folder.name).glob("*.log"))
    last.unlink()
    said = {"partition": 0, "end": 1_950, "heard_end": 1_960, "heard_ms": 5, "known_missing": 10}
    [part] = diverged_partitions(tmp_path / "a", [{"topic": t, **said} for t in (TOPIC, "meter.sent")])
    assert [one.offset for one in part.records] == list(range(1_950, 2_000))
    assert [one.record_id for one in part.records] == [f"id-{n}" for n in range(1_950, 2_000)]
    assert len(part.reported()) == 10
