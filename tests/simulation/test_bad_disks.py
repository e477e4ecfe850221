"""Log directories that answer EIO: in worlds with other faults, where nothing acknowledged is lost
and the other directory stays online; and while a broker starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rotation import drawn
from tests.simulation.admin import SimAdmin
from tests.simulation.aftermath import what_is_wrong
from tests.simulation.cluster import LOG_DIR, TWO_DIRECTORIES, SimCluster
from tests.simulation.disk import Fault, input_output_error, no_fault
from tests.simulation.story import run_seed
from tests.simulation.world import SimWorld

TROUBLE = ("bad_disk", "bad_disk_at_start", "kill", "stop", "power", "cut_pair", "slow_disk")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
@pytest.mark.parametrize("seed", drawn("worlds with bad disks", range(1, 31), 2))
def test_a_world_with_bad_disks_is_sound(seed: int, controller: str):
    """A task that ends with an error ends its broker and fails the seed."""
    outcome = run_seed(seed, controller, properties=TWO_DIRECTORIES, faults=TROUBLE)
    assert outcome.wrong == [], f"seed {seed}, {controller}"
    assert outcome.acknowledged > 100


def refuses(directory: str) -> Fault:
    def fault(kind: str, path: str) -> None:
        if f"{path}/".startswith(f"{directory}/"):
            raise input_output_error(path)

    return fault


class Rack:
    """Three brokers with two log directories each, and a topic with replicas in all of them."""

    def __init__(self, controller: str, patience_s: float = 60.0) -> None:
        self.world = SimWorld(f"bad-disks-{controller}")
        self.cluster = SimCluster(self.world, 3, controller, TWO_DIRECTORIES)
        self.patience_s = patience_s
        self.cluster.start()
        self.wait(lambda: len(self.cluster.serving()) == 3)
        admin = SimAdmin("admin", self.world.client_surroundings("admin", self.cluster.bootstrap))
        until = self.world.loop.time() + patience_s
        assert self.world.run(admin.create_surely("t", 6, 3, {}, until))
        self.wait(lambda: not what_is_wrong(self.cluster))
        self.machine = self.cluster.machines[1]

    def wait(self, test: Callable[[], bool]) -> None:
        assert self.world.run(self.world.until(test, self.patience_s))

    def homes(self) -> dict[int, str]:
        """Maps partitions to directories at the broker whose disk breaks."""
        return {
            partition.index: partition.log.directory.rpartition("/")[0]
            for machine, partition in self.cluster.partitions()
            if machine is self.machine and partition.topic == "t"
        }

    def in_sync(self) -> set[int]:
        """Partitions whose in-sync set contains that broker."""
        topic = self.cluster.image().topics["t"]
        return {one.index for one in topic.partitions if self.machine.node_id in one.isr}


@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
def test_a_directory_that_refuses_while_its_broker_starts_is_offline_alone(controller: str):
    """Regression: the error ended the start. Its replicas may not be created again in the other
    directory."""
    rack = Rack(controller)
    homes, broken = rack.homes(), TWO_DIRECTORIES["log.dirs"].split(",")[1]
    whole = {index for index, home in homes.items() if home != broken}
    assert 0 < len(whole) < 6
    rack.machine.kill()
    rack.machine.break_disk(refuses(broken))
    rack.machine.start()
    rack.wait(lambda: rack.machine.broker is not None)
    rack.wait(lambda: rack.in_sync() == whole)
    assert rack.homes() == {index: homes[index] for index in whole}
    assert all(one.leader >= 0 for one in rack.cluster.image().topics["t"].partitions)
    rack.machine.break_disk(no_fault)
    rack.machine.kill()
    rack.machine.start()
    rack.wait(lambda: not what_is_wrong(rack.cluster))
    assert (rack.homes(), rack.world.complaints) == (homes, [])
    rack.world.end()


@pytest.mark.parametrize("path", [LOG_DIR, f"{LOG_DIR}/__cluster_metadata-0"])
def test_a_node_whose_metadata_directory_refuses_ends_with_a_reason_and_starts_once_it_does_not(
    path: str,
):
    """It is restarted repeatedly meanwhile; the other brokers continue."""
    rack = Rack("kraft")
    traced: list[str] = []
    rack.world.show = traced.append
    rack.machine.kill()
    rack.machine.break_disk(refuses(path))
    rack.machine.start()
    rack.wait(lambda: sum("repair or replace the disk" in line for line in traced) > 2)
    assert rack.machine.broker is None
    rack.machine.break_disk(no_fault)
    rack.wait(lambda: not what_is_wrong(rack.cluster))
    assert rack.world.complaints == []
    rack.world.end()


def test_a_node_whose_metadata_log_fails_before_it_serves_ends():
    """Regression, found by the seeds: it requested its own end, but waited for the quorum for
    ever."""
    rack = Rack("kraft")
    for machine in rack.cluster.machines:
        machine.kill()
    traced: list[str] = []
    rack.world.show = traced.append

    def fault(kind: str, path: str) -> None:
        if kind == "flush" and "__cluster_metadata-0" in path and path.endswith(".log"):
            raise input_output_error(path)

    rack.machine.start()
    rack.wait(lambda: bool(rack.machine.process.broker.controller_addresses))  # its log is open
    rack.machine.break_disk(fault)
    rack.cluster.machines[0].start()
    rack.wait(lambda: any(f"{rack.machine.name}#2 ended" in line for line in traced))
    rack.machine.break_disk(no_fault)
    rack.cluster.machines[2].start()
    rack.wait(lambda: not what_is_wrong(rack.cluster))
    rack.world.end()
