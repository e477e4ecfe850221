"""Three real brokers, real clients, one fault each; twelve rules check what the clients saw.

A commit runs at least one of every kind and one with Java clients, by its turn, so that ten commits in
a row run all; `./databus test --all-stories` runs all at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.servers.small_disk import CannotMount
from tests.processes.cluster.networks import CannotNetwork
from tests.processes.cluster.stage import RunningStory
from tests.processes.cluster.stories import KINDS, STORIES, ClusterStory
from tests.processes.cluster.theatre import Theatre
from tests.processes.slow_fsync import CannotTrace
from tests.rotation import drawn


def chosen() -> list[ClusterStory]:
    """Of every kind those whose turn it is, and one of those with Java clients; or all."""
    found = [
        member
        for kind in KINDS
        for member in drawn(f"stories: {kind}", [one for one in STORIES if one.kind == kind])
    ]
    if not any(member.java for member in found):
        found += drawn("stories with Java", [one for one in STORIES if one.java])
    return found


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
