"""Which worlds CI runs: seeds that depend only on the commit.

In: the repository's newest commit. Out: seeds; a check of one of them. Never: the time of day, nor
a count that depends on the machine's speed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess

from deploy.paths import PROJECT_ROOT
from tests.simulation.story import run_seed

FRESH_PER_CONTROLLER = 20
"""New worlds, chosen by the commit out of more than will ever be run."""
KNOWN_PER_CONTROLLER = 10
"""Worlds out of those run manually before a release: another part for each commit."""
LAST_KNOWN_SEED = 300
FRESH_SEED_BITS = 48

ONCE_UNSOUND = {"kraft": (71071, 71220), "zookeeper": (71266,)}
"""Worlds that found something; a test of its own says what. Every commit runs them."""

SITES_ONCE_UNSOUND = (("kraft", "dies", 168), ("kraft", "dies", 189), ("kraft", "is cut off", 170))
"""The same with two sites: the controller, what becomes of the first site, the seed. In 189 an edge
asks the former primary, as it did in 168 before its question took time. In 170 a segment was
truncated under the scrub."""


def commit() -> str:
    """The newest commit, or without git the run's own seed, which the header prints."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=PROJECT_ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:  # no git
        return os.environ["DATABUS_SEED"]
    return done.stdout.strip() if done.returncode == 0 else os.environ["DATABUS_SEED"]


def seeds_of(name: str) -> list[int]:
    """Known seeds, then fresh ones; the same for the same commit."""
    first = _drawn(name, 0) % LAST_KNOWN_SEED
    known = [(first + step) % LAST_KNOWN_SEED + 1 for step in range(KNOWN_PER_CONTROLLER)]
    fresh = [LAST_KNOWN_SEED + 1 + _drawn(name, 1 + step) for step in range(FRESH_PER_CONTROLLER)]
    return known + fresh


def _drawn(name: str, step: int) -> int:
    digest = hashlib.sha256(f"{name}:{step}".encode()).digest()
    return int.from_bytes(digest[: FRESH_SEED_BITS // 8], "big")


SEEDS = seeds_of(commit())
SEEDS_PER_CONTROLLER = len(SEEDS)


def check_world(step: int, controller: str) -> None:
    """Checks one of the commit's worlds."""
    kind = "known" if step < KNOWN_PER_CONTROLLER else "never run before"
    check_seed(SEEDS[step], kind, controller)


def check_seed(seed: int, kind: str, controller: str) -> None:
    """Checks safety during faults and liveness after them. To repeat:
    `simulate --seed N --controller C --trace`."""
    print(f"seed {seed} ({kind}), controller {controller}")
    outcome = run_seed(seed, controller)
    assert outcome.wrong == [], f"seed {seed}, {controller}"
    assert outcome.acknowledged > 100
