"""A site is lost for good, and another cluster is built in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dr_mirror.test_copying import create
from tests.dr_mirror.test_switch import PARTITIONS, TOPIC, both_sites, send_one, send_records
from tests.dr_mirror.two_sites import SiteReader, start_site


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
