"""Worlds whose brokers have two log directories, and an operator who moves replicas between them
while machines die, lose power, fill up and are cut off."""

from __future__ import annotations

import pytest

from broker.replica.logdir import log_dir_mover
from tests.rotation import drawn
from tests.simulation.cluster import TWO_DIRECTORIES
from tests.simulation.story import run_seed


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
@pytest.mark.parametrize("seed", drawn("worlds with moves", range(1, 21), 4))
def test_a_world_with_moves_between_directories_is_sound(
    seed: int, controller: str, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is lost, every replica is in one directory, and the controller knows in which."""
    monkeypatch.setattr(log_dir_mover, "ITERATION_BYTES", 500)
    monkeypatch.setattr(log_dir_mover, "MAX_UNFLUSHED_BYTES", 1000)
    outcome = run_seed(seed, controller, properties=TWO_DIRECTORIES)
    assert outcome.wrong == [], f"seed {seed}, {controller}"
    assert outcome.acknowledged > 100
