"""Which worlds CI runs: seeds that depend only on the commit.

In: the repository's newest commit. Out: seeds; a judgement of one of them. Never: the time of day,
nor a count that depends on how fast the machine is.
"""

from __future__ import annotations

import subprocess

from deploy.paths import PROJECT_ROOT
from tests.simulation.story import run_seed

SEEDS_PER_CONTROLLER = 200
"""What two cores do in some two minutes, one controller on each (0.5 to 0.7 s a world)."""
LAST_SEED = 300
"""Seeds 1..300 are those that are run by hand before a release."""


def first_seed() -> int:
    """From the commit; the first where there is no repository."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    return int(done.stdout[:8], 16) % LAST_SEED + 1 if done.returncode == 0 else 1


FIRST_SEED = first_seed()
SEEDS = [(FIRST_SEED - 1 + step) % LAST_SEED + 1 for step in range(SEEDS_PER_CONTROLLER)]


def check_world(step: int, controller: str) -> None:
    """Safety in trouble, liveness after it. Again: `simulate --seed N --controller C --trace`."""
    seed = SEEDS[step]
    print(f"seed {seed} (this commit begins at {FIRST_SEED}), controller {controller}")
    outcome = run_seed(seed, controller)
    assert outcome.wrong == [], f"seed {seed}, {controller}"
    assert outcome.acknowledged > 100
