"""Two clusters, a mirror, a switch: worlds on the seeds of this commit, and bugs that are caught."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.paths import PROJECT_ROOT
from tests.rotation import drawn
from tests.simulation.commit_seeds import SEEDS, SITES_ONCE_UNSOUND
from tests.simulation.planted_in_sites import PLANTS
from tests.simulation.site_story import Fate, SiteSeedRun

WORLDS = 16
CONTROLLERS = ("kraft", "zookeeper")
PLANTED_SEEDS = range(1, 41)
TWICE = """
from tests.simulation.site_story import Fate, SiteSeedRun
outcome = SiteSeedRun({seed}, Fate("{fate}"), trouble_s=12).run()
print(outcome.digest, outcome.wrong, outcome.virtual_s)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", range(WORLDS))
def test_two_sites_of_this_commit_are_sound(step: int):
    """Nothing called copied is lost, no site epoch has two primaries, a report says what was missing
    to the record, and in the end both sites hold the same bytes on every replica."""
    seed, fate = SEEDS[step], list(Fate)[step % len(Fate)]
    controller = CONTROLLERS[step // len(Fate) % len(CONTROLLERS)]
    world = f"seed {seed}, {controller}, the first site {fate.value}"
    print(world)
    outcome = SiteSeedRun(seed, fate, controller).run()
    assert outcome.wrong == [], world
    assert outcome.acknowledged > 10, "in the worst of faults something is acknowledged"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("controller", "fate", "seed"), SITES_ONCE_UNSOUND)
def test_two_sites_that_found_something_are_sound(controller: str, fate: str, seed: int):
    """They found faults of what stands between two sites."""
    assert SiteSeedRun(seed, Fate(fate), controller).run().wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("fate", drawn("fates", [Fate.HANDS_OVER, Fate.DIES]))
def test_two_sites_run_twice_give_the_same_trace_whatever_the_hashes(fate: Fate):
    """Two processes with different PYTHONHASHSEED send every byte at the same virtual time."""
    traces = [
        subprocess.run(
            [sys.executable, "-c", TWICE.format(seed=7, fate=fate.value)],
            cwd=PROJECT_ROOT, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        ).stdout
        for hash_seed in (1, 2)
    ]  # fmt: skip
    assert traces[0] == traces[1]
    assert " [] " in traces[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", drawn("bugs planted between sites", list(PLANTS)))
def test_the_checkers_of_two_sites_catch(name: str, monkeypatch: pytest.MonkeyPatch):
    """The search ends at the first seed with a violation."""
    planted = PLANTS[name]
    planted.plant(monkeypatch)
    for seed in PLANTED_SEEDS:
        outcome = SiteSeedRun(seed, planted.fate, planted.controller).run()
        if outcome.wrong:
            print(f"seed {seed}: {outcome.wrong[0]}")
            return
    pytest.fail(f"{name} was not caught in seeds {PLANTED_SEEDS[0]}..{PLANTED_SEEDS[-1]}")
