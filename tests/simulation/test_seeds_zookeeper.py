"""ZooKeeper worlds on the seeds of this commit, in a separate file because workers run whole
files."""

from __future__ import annotations

import pytest

from tests.simulation.commit_seeds import (
    ONCE_UNSOUND,
    SEEDS_PER_CONTROLLER,
    check_seed,
    check_world,
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", range(SEEDS_PER_CONTROLLER))
def test_a_world_of_this_commit_is_sound(step: int):
    """Safety holds during faults, liveness after them."""
    check_world(step, "zookeeper")


@pytest.mark.slow
@pytest.mark.parametrize("seed", ONCE_UNSOUND["zookeeper"])
def test_a_world_that_found_something_is_sound(seed: int):
    """They found faults of brokers or of the checker."""
    check_seed(seed, "once unsound", "zookeeper")
