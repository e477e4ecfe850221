"""Every planted bug is caught by a checker within a bounded number of fixed seeds.

This tests the checkers, not the broker: a bug that no seed reveals would also stay invisible if a
developer made it by mistake.
"""

from __future__ import annotations

import pytest

from tests.rotation import drawn
from tests.simulation.planted import PLANTS
from tests.simulation.story import run_seed

SEEDS = range(1, 25)
POWER = ("power", "kill", "kill_two")
NETWORK = ("isolate", "cut_pair", "kill", "pause")
QUORUM = ("power_in_election", "power_in_commit")
FAULTS: dict[str, tuple[str, ...]] = {
    "a_lost_page_cache_is_not_noticed": POWER,
    "logs_are_not_flushed": POWER,
    "votes_are_given_twice": NETWORK,
    "metadata_commit_without_a_majority": (*NETWORK, "kill_controller"),
    "unclean_election": NETWORK,
    "a_vote_is_answered_before_it_is_stored": ("power_in_election",),
    "a_voter_says_what_it_has_not_flushed": ("power_in_commit",),
    "a_cut_goes_below_what_was_flushed": ("power_in_commit",),
    "the_watermark_rises_below_min_isr": ("followers_are_cut_off",),
}
"""Faults that reveal some of the bugs sooner; the others get all kinds."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", drawn("planted bugs", list(PLANTS), len(PLANTS) // 6))
def test_the_checkers_catch(name: str, monkeypatch: pytest.MonkeyPatch):
    """The search ends at the first seed with a violation."""
    PLANTS[name](monkeypatch)
    for seed in SEEDS:
        outcome = run_seed(seed, "kraft", faults=FAULTS.get(name, ()))
        if outcome.wrong:
            print(f"seed {seed}: {outcome.wrong[0]}")
            return
    pytest.fail(f"{name} was not caught in seeds {SEEDS[0]}..{SEEDS[-1]}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", drawn("unplanted", [1, 2, 3]))
@pytest.mark.parametrize("faults", [POWER, NETWORK, QUORUM], ids=["power", "network", "quorum"])
def test_the_same_faults_without_a_bug_are_survived(seed: int, faults: tuple[str, ...]):
    """The checkers that catch the bugs must not complain about the unmodified broker."""
    assert run_seed(seed, "kraft", faults=faults).wrong == []
