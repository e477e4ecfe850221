"""A site is lost for good, and another cluster is built in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.switch.test_site_confirmation import is_marked
from tests.dr_mirror.switch.test_switch import (
    PARTITIONS,
    TOPIC,
    both_sites,
    is_read_only,
    send_one,
    send_records,
)
from tests.dr_mirror.two_sites import SiteReader, start_site, wait_until


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cluster_that_was_built_anew_becomes_the_second_site_and_then_the_primary(
    tmp_path: Path,
):
    """Its empty topics, as `databus up` makes them, become copies; one with records is named."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        send_records(a, 100)
        sites.wait_until_copying("A")
        never = sites.switch("", "--back", "--new-cluster")
        assert never.returncode == 1
        assert "is not the primary by any switch" in never.stderr
        a.kill(1)
        assert sites.switch("B", "--force").returncode == 0
        send_one(b)
        sites.mirror.kill()
        fresh = start_site(tmp_path / "new-a", 1)
        try:
            create(fresh, TOPIC, PARTITIONS)
            create(fresh, "data.face", PARTITIONS)
            create(b, "data.face", PARTITIONS)
            sites.clusters["A"] = fresh
            sites.readers["A"] = SiteReader(fresh.bootstrap)
            sites.mirror.source = fresh.mirror_bootstrap
            sites.mirror.start()
            without = sites.switch("", "--back")
            assert without.returncode == 1
            assert "--new-cluster" in without.stderr
            send_one(fresh, "data.face")
            refused = sites.switch("", "--back", "--new-cluster")
            assert refused.returncode == 1
            assert "data.face-0: it holds 1 offsets of its own" in refused.stderr
            sites.mirror.settings["mirror.black_list"] = '["data.face"]'
            sites.mirror.kill()
            sites.mirror.start()
            done = sites.switch("", "--back", "--new-cluster", "--json")
            assert done.returncode == 0, done.stdout + done.stderr
            said = json.loads(done.stdout)
            assert f"cluster {a.cluster_id} is gone" in said["notes"][0]
            sites.wait_until_copying("B")
            sites.wait_until_equal()
            sites.assert_equal()
            again = sites.switch("", "--back", "--new-cluster")
            assert again.returncode == 1
            assert "the cluster that B knows" in again.stderr
            home = sites.switch("A")
            assert home.returncode == 0, home.stdout + home.stderr
            send_one(fresh)
            sites.wait_until_copying("A")
        finally:
            fresh.kill(1)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("a second loss")
def test_a_second_loss_before_the_first_site_has_rejoined_loses_no_order(tmp_path: Path):
    """B is dead, too, when A returns: a person opens A; B has the newer site epoch when it is
    back, and what A took meanwhile goes into files."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        send_records(a, 100)
        sites.wait_until_copying("A")
        wait_until(lambda: is_marked(a, TOPIC), "A knows that it has a second site")
        a.kill(1)
        assert sites.switch("B", "--force").returncode == 0
        send_one(b)
        b.kill(1)
        a.restart(1)
        refused = sites.switch("A", "--force")
        assert refused.returncode == 1
        opened = sites.mirror.command("primary", "--force", "--reason", "B is dead")
        assert opened.returncode == 0, opened.stdout + opened.stderr
        send_one(a)
        b.restart(1)
        wait_until(lambda: is_read_only(a), "A is told of the switch")
        send_one(b)
        taken = sum(sites.ends("A")) - 100
        assert taken >= 1
        back = sites.switch("", "--back", "--json")
        assert back.returncode == 0, back.stdout + back.stderr
        own = [one for one in json.loads(back.stdout)["partitions"] if one["file"]]
        assert sum(one["records"] for one in own) == taken
        sites.wait_until_copying("B")
        sites.wait_until_equal()
        sites.assert_equal()
