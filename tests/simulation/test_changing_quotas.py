"""Changing quotas in simulated clusters, and bugs of quotas that must be caught there."""

from __future__ import annotations

import pytest

from tests.rotation import drawn
from tests.simulation.planted_in_quotas import PLANTS
from tests.simulation.quota_story import run_quota_story

SEEDS = range(1, 5)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
def test_each_broker_tells_who_waits_by_the_newest_quotas(controller: str, seed: int) -> None:
    """A second after the change. Also in the world in which a plant is looked for first."""
    for one in (SEEDS[0], seed):
        assert run_quota_story(one, controller) == [], f"seed {one}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", drawn("planted in quotas", list(PLANTS)))
def test_the_story_catches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search ends at the first seed with a violation."""
    PLANTS[name](monkeypatch)
    for seed in SEEDS:
        if wrong := run_quota_story(seed, "kraft"):
            print(f"seed {seed}: {wrong[0]}")
            return
    pytest.fail(f"{name} was not caught in seeds {SEEDS[0]}..{SEEDS[-1]}")
