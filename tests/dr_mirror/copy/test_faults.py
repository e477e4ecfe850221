"""The mirror, the source's and the target's broker are killed at random moments; nothing is lost or
doubled."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from deploy.servers.databus_cluster import start_cluster
from tests.dr_mirror.copy.test_copying import SendingCity, create
from tests.dr_mirror.two_sites import (
    SOURCE_PROPERTIES,
    mirrored,
    start_pair_of_brokers,
    start_target,
    wait_until,
    wait_until_in_sync,
)

KILLS = 6
PARTITIONS = 10


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("faults of a mirror")
def test_after_kills_of_mirror_and_brokers_both_sites_hold_the_same_batches(
    tmp_path: Path, dice: random.Random
):
    """Each of the three is killed, in an order and at moments drawn from the seed."""
    source = start_cluster(tmp_path / "a", brokers=1, properties=SOURCE_PROPERTIES)
    target = start_target(tmp_path / "b")
    victims = ["mirror", "source", "target"] * (KILLS // 3)
    dice.shuffle(victims)
    try:
        with mirrored(tmp_path / "mirror", source.bootstrap, target) as sites:
            create(source, "data.face", PARTITIONS)
            city = SendingCity(source.bootstrap, "data.face", PARTITIONS, dice)
            try:
                for victim in victims:
                    city.wait_for_more(200)
                    time.sleep(dice.random() * 0.5)  # the moment of the kill is what is drawn
                    if victim == "mirror":
                        sites.mirror.kill()
                        sites.mirror.start()
                    else:
                        cluster = source if victim == "source" else target
                        cluster.kill(1)
                        cluster.restart(1)
            finally:
                city.stop()
            sites.wait_until_copied("data.face", PARTITIONS, 90)
            sites.assert_equal("data.face", PARTITIONS)
            ends = [sites.target.ends("data.face", each)[1] for each in range(PARTITIONS)]
            assert sum(ends) == city.acknowledged
            # a mirror that has just begun anew says so a second later than it copies
            wait_until(
                lambda: {one.state for one in sites.mirror.status().partitions} == {"copying"},
                "the mirror says that it copies",
            )
    finally:
        source.kill(1)
        target.kill(1)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("faults of a mirror")
def test_leaders_move_at_both_sites_and_the_copy_goes_on_behind_the_new_ones(
    tmp_path: Path, dice: random.Random
):
    """Each broker of both sites is killed once, in an order drawn from the seed."""
    source = start_pair_of_brokers(tmp_path / "a", 1)
    target = start_pair_of_brokers(tmp_path / "b", 2)
    victims = [(cluster, node) for cluster in (source, target) for node in (1, 2)]
    dice.shuffle(victims)
    try:
        with mirrored(tmp_path / "mirror", source.bootstrap, target) as sites:
            create(source, "data.video", PARTITIONS)
            city = SendingCity(source.bootstrap, "data.video", PARTITIONS, dice)
            try:
                city.wait_for_more(200)
                sites.wait_until_some("data.video")
                for cluster, node in victims:
                    cluster.kill(node)
                    city.wait_for_more(200)
                    cluster.restart(node)
                    wait_until_in_sync(cluster, "data.video")
            finally:
                city.stop()
            sites.wait_until_copied("data.video", PARTITIONS, 90)
            sites.assert_equal("data.video", PARTITIONS)
            ends = [sites.target.ends("data.video", each)[1] for each in range(PARTITIONS)]
            assert sum(ends) == city.acknowledged
    finally:
        for cluster in (source, target):
            for node in cluster.plan:
                cluster.kill(node)
