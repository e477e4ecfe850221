"""Changing ACLs in simulated clusters, and bugs of authorization that must be caught there."""

from __future__ import annotations

import pytest

from tests.rotation import drawn
from tests.simulation.access_story import run_access_story
from tests.simulation.planted_in_access import PLANTS

SEEDS = range(1, 7)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
def test_each_broker_answers_by_the_newest_acls(controller: str, seed: int) -> None:
    """A second after the change; forwarded requests, too. Also in the world in which a plant is
    looked for first."""
    for one in (SEEDS[0], seed):
        assert run_access_story(one, controller) == [], f"seed {one}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("controller", drawn("planted in access: controller", ["kraft", "zookeeper"]))
@pytest.mark.parametrize("name", drawn("planted in access", list(PLANTS), 2))
def test_the_story_catches(
    name: str, controller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends at the first seed with a violation."""
    PLANTS[name](monkeypatch)
    for seed in SEEDS:
        if wrong := run_access_story(seed, controller):
            print(f"seed {seed}: {wrong[0]}")
            return
    pytest.fail(f"{name} was not caught in seeds {SEEDS[0]}..{SEEDS[-1]}")
