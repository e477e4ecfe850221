"""`databus test`: pytest over tests/, files in parallel, the tests of one file in sequence.

In: quick, all, every member of the long matrices, or all stories of real clusters, and pytest's
own words. Out: pytest's exit status;
its summary is the last line.
Never: a test of its own.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence

from deploy.paths import PROJECT_ROOT
from deploy.setup.test_packages import ensure_test_packages, ensure_test_tools

QUICK = "not java and not browser and not slow"
STORIES = "tests/processes/cluster/test_stories.py"
EVERY_MEMBER_VARIABLE = "DATABUS_EVERY_MEMBER"  # "all": none of a long matrix is left out
WORKERS = 2  # the smallest machine this must run on has two cores


def commands(*, quick: bool, arguments: Sequence[str]) -> list[str]:
    """The one pytest call; tests of one file stay on one worker, for they share servers."""
    call = [sys.executable, "-m", "pytest"]
    if quick:
        call += ["-m", QUICK]
    if not any(word.startswith(("-n", "--numprocesses", "--pdb")) for word in arguments):
        call += ["-n", str(WORKERS), "--dist", "loadgroup" if quick else "loadfile"]
    chosen = any(
        not word.startswith("-") and (PROJECT_ROOT / word.split("::")[0]).exists()
        for word in arguments
    )
    return [*call, *arguments, *([] if chosen else ["tests"])]


def run(
    *, quick: bool, all_stories: bool = False, every_member: bool = False, arguments: Sequence[str]
) -> int:
    """Run the tests in this environment; the seed of the property tests is printed."""
    ensure_test_packages()
    if not quick:
        ensure_test_tools()
    seed = os.environ.get("DATABUS_SEED") or str(random.SystemRandom().randrange(1 << 32))
    print(f"databus: seed {seed} (repeat with DATABUS_SEED={seed})", flush=True)
    environment = {**os.environ, "DATABUS_SEED": seed, "PYTHONUNBUFFERED": "1"}
    if every_member or all_stories:
        environment[EVERY_MEMBER_VARIABLE] = "all"
    if all_stories:  # one after the other: each has three brokers and its clients
        arguments = [STORIES, "-n", "0", *arguments]
    done = subprocess.run(
        commands(quick=quick, arguments=arguments), cwd=PROJECT_ROOT, env=environment, check=False
    )
    return done.returncode
