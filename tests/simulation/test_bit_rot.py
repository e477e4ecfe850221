"""A flipped bit in cold data is found by the batch's checksum and is not passed on."""

from __future__ import annotations

import pytest

from tests.checker import rules
from tests.simulation.cluster import LOG_DIR
from tests.simulation.machine import SimMachine
from tests.simulation.stage import ScriptStage

pytestmark = pytest.mark.slow


def flip_a_bit(machine: SimMachine, partition: str) -> None:
    """Flips a bit in a record's value in the middle of the first segment, bypassing the cache."""
    paths = sorted(p for p in machine.disk.files if p.startswith(f"{LOG_DIR}/{partition}/"))
    data = machine.disk.files[next(p for p in paths if p.endswith(".log"))].data
    at = data.index(b"producer.", len(data) // 2)
    data[at] ^= 0x10


def values_read(stage: ScriptStage) -> list[str]:
    return [value for event in stage.world.history for _, value in getattr(event, "records", [])]


def test_a_flipped_bit_is_delivered_to_nobody_and_another_replica_serves():
    """The leader's copy is damaged; readers refuse it, and after an election all records are
    readable."""
    stage = ScriptStage("bit-rot")
    for line in ("cluster 3", "topic t", *["produce t 5"] * 8, "wait 15"):
        stage.run(line)
    written = [f"producer.{number}" for number in range(40)]
    flip_a_bit(stage.cluster.machines[0], "t-0")
    assert stage.run("read t")[0] == "cannot be read"
    assert set(values_read(stage)) < set(written)
    stage.run("kill 1")
    stage.run("until t leader not 1")
    assert stage.run("read t") == ["40 values", "producer.0 ... producer.39"]
    assert rules.check(stage.world.history) == []
    stage.end()


def test_a_follower_takes_no_rotten_batch_from_its_leader():
    """It copies up to the damage and not beyond, so that the damage does not spread, and counts the
    refused batch for its source."""
    stage = ScriptStage("rot-does-not-spread")
    for line in ("cluster 3", "topic t", "kill 3", "until t insync 1,2"):
        stage.run(line)
    for line in (*["produce t 5"] * 8, "wait 15"):
        stage.run(line)
    flip_a_bit(stage.cluster.machines[0], "t-0")
    stage.run("start 3")
    stage.run("wait 10")
    ends = {m.node_id: p.log.end_offset for m, p in stage.cluster.partitions() if p.topic == "t"}
    assert ends[1] == ends[2] == 40
    assert ends[3] < 40
    assert "in sync 1,2" in next(iter(stage.run("show t")))
    page = stage.cluster.machines[2].broker.metrics.text()
    assert 'kafka_server_replicamanager_damagedfetches_total{leader="1"}' in page
    stage.run("kill 1")
    stage.run("until t insync 2,3")
    assert stage.run("read t")[0] == "40 values"
    stage.end()


def test_another_replica_leads_while_one_is_in_doubt_until_it_is_mended():
    """With a topic id that differs from its copy (`faults.md` D2) the replica is offline, the
    controller is notified, and none of its data is deleted."""
    stage = ScriptStage("in-doubt")
    for line in ("cluster 3", "topic t", "until t insync 1,2,3", *["produce t 5"] * 4, "wait 70"):
        stage.run(line)
    stage.run("kill 1")
    stage.run("until t insync 2,3")
    files = stage.cluster.machines[0].disk.files
    path = f"{LOG_DIR}/t-0/partition.metadata"
    whole = bytes(files[path].data)
    files[path].data[25] ^= 1
    stage.run("start 1")
    stage.run("wait 20")
    assert "in sync 2,3" in next(iter(stage.run("show t")))
    assert stage.run("read t")[0] == "20 values"
    assert any(name.startswith(f"{LOG_DIR}/t-0/") and name.endswith(".log") for name in files)
    stage.run("kill 1")
    files[path].data[:] = whole
    stage.run("start 1")
    stage.run("until t insync 1,2,3")
    assert stage.run("read t")[0] == "20 values"
    stage.end()
