"""ZooKeeper worlds on the seeds of this commit, in a separate file because workers run whole
files."""

from __future__ import annotations

import pytest

from tests.simulation.commit_seeds import SEEDS_PER_CONTROLLER, check_world


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", range(SEEDS_PER_CONTROLLER))
def test_a_world_of_this_commit_is_sound(step: int):
    """Safety holds during faults, liveness after them."""
    check_world(step, "zookeeper")
