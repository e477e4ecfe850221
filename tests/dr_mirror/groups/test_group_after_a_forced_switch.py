"""How far before where it stood at the lost site a group goes on at the other one."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.settings import BusSettings
from deploy.bench.mirror.bench_mirror import PARTITIONS, TOPIC
from deploy.bench.mirror.group_offsets import GROUP, CommittingGroup, behind_of
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.switch.test_switch import AcknowledgedProducer, both_sites
from tests.dr_mirror.two_sites import wait_until

MAX_BEHIND_S = 2.0
TRIES = 3
COMMITS = 200


def behind_s(folder: Path, dice: random.Random) -> float:
    """A is killed while a group commits all the time; seconds by which its position at B is older."""
    with both_sites(folder) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        sites.wait_until_copying("A")
        sender = AcknowledgedProducer(a.bootstrap, dice)
        sender.wait_for(1_000)
        group = CommittingGroup(a.bootstrap)
        try:
            wait_until(lambda: len(group.commits) > COMMITS, "a group moves")
            a.kill(1)
            killed_s = time.monotonic()
        finally:
            group.stop()
            sender.stop()
        done = sites.switch("B", "--force")
        assert done.returncode == 0, done.stdout + done.stderr
        admin = Admin(BusSettings(bootstrap_servers=b.bootstrap), client_id="test")
        at_b, ends = admin.committed(GROUP), admin.end_offsets(group.commits[-1][1])
        admin.close()
    written = [place for place, end in group.commits[0][1].items() if end]
    assert written
    assert all(0 < at_b[place] <= ends[place] for place in written), "never beyond what B has"
    return behind_of(group.commits, at_b, killed_s)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_group_goes_on_at_most_two_seconds_before_where_it_stood_at_a_lost_site(
    tmp_path: Path, dice: random.Random
):
    """The best of three: what is measured is the product, not the other work of the machine."""
    took: list[float] = []
    while min(took, default=MAX_BEHIND_S + 1) > MAX_BEHIND_S and len(took) < TRIES:
        took.append(behind_s(tmp_path / f"{len(took)}", dice))
    print(f"the group goes on {took} s before")
    assert min(took) <= MAX_BEHIND_S
