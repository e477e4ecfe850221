"""Worlds whose brokers have two log directories, of which one answers EIO from some call on, among
other trouble: the other one goes on, and nothing acknowledged is lost."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import TWO_DIRECTORIES
from tests.simulation.story import run_seed

TROUBLE = ("bad_disk", "kill", "stop", "power", "cut_pair", "slow_disk")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
@pytest.mark.parametrize("seed", range(1, 16))
def test_a_world_with_bad_disks_is_sound(seed: int, controller: str):
    """A task that ends with an error ends its broker and fails the seed."""
    outcome = run_seed(seed, controller, properties=TWO_DIRECTORIES, faults=TROUBLE)
    assert outcome.wrong == [], f"seed {seed}, {controller}"
    assert outcome.acknowledged > 100
