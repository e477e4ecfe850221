"""Logs that are cleaned while everything happens to them: alone by hundreds of lives, and in clusters."""

from __future__ import annotations

import pytest

from tests.rotation import drawn
from tests.simulation.one_log import run_one_log
from tests.simulation.planted_in_cleaner import PLANTS
from tests.simulation.table_story import TableRun

LIVES = range(1, 61)
LIVES_PER_RUN = 12
CLUSTERS = [
    ("kraft", 3), ("kraft", 9), ("kraft", 2026112908), ("kraft", 2026112915),
    ("kraft", 2026113551), ("zookeeper", 2026113558), ("zookeeper", 2026113564),
    ("zookeeper", 3), ("zookeeper", 8), ("zookeeper", 2026112903), ("zookeeper", 2026112915),
]  # fmt: skip
"""Seeds that found something: batches a producer sent again and was not known by, a disk that took no
names in the middle of a swap, replicas that were away for longer than tombstones are kept, and faults
of the checker."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", drawn("lives of a log", list(LIVES), LIVES_PER_RUN))
def test_a_log_with_a_cleaner_is_the_log_without_one(seed: int) -> None:
    """For whoever reads the newest value of each key, and for its producers."""
    assert run_one_log(seed) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("controller", "seed"), drawn("cleaned clusters", CLUSTERS, 2))
def test_a_table_in_a_cluster_keeps_its_keys(controller: str, seed: int) -> None:
    """While leaders change, disks are full, power goes and producers send again."""
    world = TableRun(seed, controller)
    assert world.run().wrong == []
    assert world.auditor is not None
    assert world.auditor.readings > 50


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", list(PLANTS))
def test_the_model_catches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within sixty lives."""
    PLANTS[name](monkeypatch)
    for seed in LIVES:
        wrong = run_one_log(seed)
        if wrong:
            print(f"seed {seed}: {wrong[0]}")
            return
    pytest.fail(f"{name} was not caught in seeds {LIVES[0]}..{LIVES[-1]}")
