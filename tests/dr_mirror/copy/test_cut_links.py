"""Mirror, brokers and the links between them fail at random moments; nothing is lost or doubled.

Each of the three has a network of its own, whose packets are dropped or refused. By hand, fifty
runs: `DATABUS_FAULT_RUNS=50 pytest -s tests/dr_mirror/copy/test_cut_links.py`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.servers.databus_cluster import RunningCluster, start_cluster
from tests.dr_mirror.copy.test_copying import SendingCity, create
from tests.dr_mirror.two_sites import ALONE, MirrorProcess, SiteReader, TwoSites, wait_until
from tests.processes.cluster.networks import CannotNetwork, Networks

RUNS = int(os.environ.get("DATABUS_FAULT_RUNS", "3"))
FAULTS = 5
PARTITIONS = 6
SITE_A, SITE_B, MIRROR = 1, 2, 3
LONGEST_CUT_S = 3.0
TIME_S = 120 + 60 * RUNS
CAUGHT_UP_S = 90.0


@dataclass
class FaultySites:
    """Site A, site B, the mirror: each in a network of its own."""

    networks: Networks
    a: RunningCluster
    b: RunningCluster
    mirror: MirrorProcess
    dice: random.Random

    def fail(self) -> str:
        """One fault, over when this returns; which it was."""
        what = self.dice.choice(("kill mirror", "kill a", "kill b", "cut a", "cut b"))
        if what == "kill mirror":
            self.mirror.kill()
            self.mirror.start()
        elif what.startswith("kill"):
            site = self.a if what == "kill a" else self.b
            site.kill(1)
            site.restart(1)
        else:
            verdict = self.dice.choice(("drop", "reject"))
            other = SITE_A if what == "cut a" else SITE_B
            self.networks.cut(MIRROR, [self.networks.address(other)], verdict)
            time.sleep(self.dice.random() * LONGEST_CUT_S)  # how long is what is drawn
            self.networks.heal(MIRROR)
            what = f"{what} ({verdict})"
        return what


@pytest.fixture
def sites(tmp_path: Path, dice: random.Random) -> Iterator[FaultySites]:
    try:
        networks = Networks(3)
    except CannotNetwork as reason:
        pytest.skip(f"links are not cut: {reason}")
    clusters: list[RunningCluster] = []
    mirror: MirrorProcess | None = None
    try:
        for number, name in ((SITE_A, "a"), (SITE_B, "b")):
            clusters.append(
                start_cluster(
                    tmp_path / name, 1, properties={**ALONE, "site.number": str(number)},
                    hosts=[networks.address(number)], prefixes=[networks.prefix(number)],
                    mirror_listener=True,
                )
            )  # fmt: skip
        a, b = clusters
        mirror = MirrorProcess(
            tmp_path / "mirror", a.bootstrap, b.mirror_bootstrap, {}, networks.prefix(MIRROR)
        ).start()
        yield FaultySites(networks, a, b, mirror, dice)
    finally:
        if mirror is not None:
            mirror.kill()
        for each in clusters:
            each.kill(1)
        networks.close()


@pytest.mark.slow
@pytest.mark.timeout(TIME_S)
def test_whatever_fails_both_sites_hold_the_same_bytes_and_each_record_once(sites: FaultySites):
    """Compared after each run, batch for batch, with what the senders were told."""
    both = TwoSites(SiteReader(sites.a.bootstrap), SiteReader(sites.b.bootstrap), sites.mirror)
    for run in range(RUNS):
        topic = f"data.run-{run}"
        create(sites.a, topic, PARTITIONS)
        city = SendingCity(sites.a.bootstrap, topic, PARTITIONS, sites.dice)
        try:
            done = []
            for _ in range(FAULTS):
                city.wait_for_more(100)
                time.sleep(sites.dice.random() * 0.5)  # the moment of the fault is what is drawn
                done.append(sites.fail())
        finally:
            city.stop()
        both.wait_until_copied(topic, PARTITIONS, CAUGHT_UP_S)
        batches = both.assert_equal(topic, PARTITIONS)
        ends = [both.target.ends(topic, each)[1] for each in range(PARTITIONS)]
        print(f"run {run}: {', '.join(done)}; {city.acknowledged} records, {batches} batches")
        assert sum(ends) == city.acknowledged
    wait_until(
        lambda: {one.state for one in sites.mirror.status().partitions} == {"copying"},
        "the mirror says that it copies",
    )
