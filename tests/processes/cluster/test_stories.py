"""Three real brokers, real clients, one fault each; what the clients saw is judged by twelve rules.

By default only a few members run, drawn by the commit's seed from those that have been seen to pass
again and again; `DATABUS_CLUSTER_TESTS=all` runs all of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.processes.cluster.members import MEMBERS, Member
from tests.processes.cluster.networks import CannotNetwork
from tests.processes.cluster.stage import Stage
from tests.processes.cluster.theatre import Theatre
from tests.processes.small_disk import CannotMount

EVERY_RUN = 2  # members; a story takes half a minute on two quiet cores


def chosen() -> list[Member]:
    """All, or a few of the proven ones: the same for the same commit."""
    if os.environ.get("DATABUS_CLUSTER_TESTS") == "all":
        return list(MEMBERS)
    proven = [member for member in MEMBERS if member.proven]
    dice = random.Random(f"{os.environ.get('DATABUS_SEED', '0')}:cluster")
    return dice.sample(proven, min(EVERY_RUN, len(proven)))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("member", chosen(), ids=lambda member: member.name)
def test_nothing_acknowledged_is_lost_doubled_or_reordered(member: Member, tmp_path: Path) -> None:
    """The flow goes on through the fault as far as it can, and afterwards every rule holds."""
    try:
        theatre = Theatre(tmp_path / "cluster", member.needs)
    except (CannotNetwork, CannotMount) as cannot:
        pytest.skip(str(cannot))
    stage = Stage(theatre.cluster, tmp_path)
    try:
        stage.open(java=member.java)
        member.fault(theatre, stage)
        stage.judge()
    finally:
        stage.close()
        theatre.close()
