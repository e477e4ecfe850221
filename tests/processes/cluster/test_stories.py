"""Three real brokers, real clients, one fault each; twelve rules check what the clients saw.

A commit runs eight of them, at least one of every kind and one with Java clients, drawn by its seed;
`./databus test --all-stories` runs all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.testservers.small_disk import CannotMount
from tests.processes.cluster.networks import CannotNetwork
from tests.processes.cluster.stage import RunningStory
from tests.processes.cluster.stories import KINDS, STORIES, ClusterStory
from tests.processes.cluster.theatre import Theatre
from tests.processes.slow_fsync import CannotTrace
from tests.rotation import every_member_is_wanted, randomness

EVERY_RUN = 8  # stories; one takes about half a minute on two quiet cores


def chosen() -> list[ClusterStory]:
    """All stories, or eight: the same for the same commit, others for the next."""
    if every_member_is_wanted():
        return list(STORIES)
    dice = randomness("cluster")
    found = [dice.choice([one for one in STORIES if one.kind == kind]) for kind in KINDS]
    if not any(member.java for member in found):
        found.append(dice.choice([member for member in STORIES if member.java]))
    rest = [member for member in STORIES if member not in found]
    return found + dice.sample(rest, EVERY_RUN - len(found))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("member", chosen(), ids=lambda member: member.name)
def test_nothing_acknowledged_is_lost_doubled_or_reordered(member: ClusterStory, tmp_path: Path) -> None:
    """The flow continues during the fault as far as possible, and afterwards every rule holds."""
    try:
        theatre = Theatre(tmp_path / "cluster", member.needs)
    except (CannotNetwork, CannotMount, CannotTrace) as cannot:
        pytest.skip(str(cannot))
    stage = RunningStory(theatre.cluster, tmp_path)
    try:
        stage.open(java=member.java)
        member.fault(theatre, stage)
        stage.judge()
    finally:
        stage.close()
        theatre.close()
