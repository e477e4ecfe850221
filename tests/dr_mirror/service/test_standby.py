"""Two mirrors with the same settings: one copies, the other one follows it when it is gone."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.servers.databus_cluster import RunningCluster, start_cluster
from tests.dr_mirror.copy.test_copying import SendingCity, create
from tests.dr_mirror.two_sites import (
    SOURCE_PROPERTIES,
    MirrorProcess,
    SiteReader,
    TwoSites,
    start_target,
    wait_until,
)

TOPIC, PARTITIONS = "data.shared", 4
STANDS_BY, TURN = "stands by", "it is this instance's turn"


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    source = start_cluster(tmp_path / "a", brokers=1, properties=SOURCE_PROPERTIES)
    target = start_target(tmp_path / "b")
    yield source, target
    for cluster in (source, target):
        cluster.kill(1)


def said(mirror: MirrorProcess, text: str) -> int:
    return mirror.log.read_text("utf-8", "replace").count(text)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.rotates("faults of a mirror")
def test_another_instance_goes_on_when_one_is_killed_or_stands_still_and_one_that_wakes_stands_by(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path, dice: random.Random
):
    """Nothing is lost, nothing comes twice, and never do both stand by for long."""
    source, target = clusters
    create(source, TOPIC, PARTITIONS)
    first = MirrorProcess(
        tmp_path / "first", source.bootstrap, target.mirror_bootstrap, {"mirror.standby": "true"}
    ).start()
    second = replace(first, folder=tmp_path / "second", process=None)
    sites = TwoSites(SiteReader(source.bootstrap), SiteReader(target.bootstrap), first)
    city = SendingCity(source.bootstrap, TOPIC, PARTITIONS, dice)
    try:
        wait_until(lambda: said(first, TURN) == 1, "the first one works")
        sites.wait_until_some(TOPIC)
        second.start()
        wait_until(lambda: said(second, STANDS_BY) == 1, "the second one waits")
        city.wait_for_more(500)
        assert said(second, TURN) == 0
        first.kill()
        wait_until(lambda: said(second, TURN) == 1, "the second one works")
        first.start()
        wait_until(lambda: said(first, STANDS_BY) == 2, "the first one waits")
        goes_on(sites, city)
        assert second.process is not None
        second.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: said(first, TURN) == 2, "the first one works again")
        goes_on(sites, city)
        second.process.send_signal(signal.SIGCONT)
        wait_until(lambda: said(second, STANDS_BY) == 2, "the one that woke stands by")
        goes_on(sites, city)
        city.stop()
        sites.wait_until_copied(TOPIC, PARTITIONS)
        sites.assert_equal(TOPIC, PARTITIONS)
        ends = [sites.target.ends(TOPIC, each)[1] for each in range(PARTITIONS)]
        assert sum(ends) == city.acknowledged
        assert (said(first, TURN), said(second, TURN)) == (2, 1)
    finally:
        city.stop()
        for mirror in (first, second):
            if mirror.process is not None:
                mirror.process.send_signal(signal.SIGCONT)
                mirror.kill()


def goes_on(sites: TwoSites, city: SendingCity) -> None:
    before = sites.target.ends(TOPIC, 0)[1]
    city.wait_for_more(200)
    wait_until(lambda: sites.target.ends(TOPIC, 0)[1] > before, "records come to the target")
