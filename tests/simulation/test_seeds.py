"""A seed run twice is the same world; worlds of one broker. See test_seeds_<controller> for many."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.paths import PROJECT_ROOT
from tests.simulation.story import SeedRun

TWICE = """
from tests.simulation.story import SeedRun
outcome = SeedRun({seed}, "{controller}", brokers={brokers}, trouble_s={trouble_s}).run()
print(outcome.digest, outcome.steps, outcome.acknowledged)
"""


def trace_of(hash_seed: int, **words: object) -> str:
    """The digest of a world run in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE.format(**words)],
        cwd=PROJECT_ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controller", "brokers"), [("kraft", 1), ("kraft", 3), ("zookeeper", 3)]
)
def test_a_seed_run_twice_gives_the_same_trace_whatever_the_hashes(controller: str, brokers: int):
    """Two processes with different PYTHONHASHSEED send every byte at the same virtual time."""
    words = {"seed": 5, "controller": controller, "brokers": brokers, "trouble_s": 15}
    first = trace_of(1, **words)
    assert first == trace_of(2, **words)
    assert int(first.split()[2]) > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_world_of_one_broker_is_sound(seed: int):
    """It has kills, pauses, full disks and clock jumps; the broker is its own controller."""
    outcome = SeedRun(seed, "kraft", brokers=1, trouble_s=20).run()
    assert outcome.wrong == []
    assert outcome.acknowledged > 100
