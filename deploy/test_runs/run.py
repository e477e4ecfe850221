"""`databus test`: pytest over tests/, files in parallel, the tests of one file in sequence.

In: what is to run, and pytest's own words. Out: pytest's exit status; a summary is the last line.
Never: a test of its own.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from deploy.paths import PROJECT_ROOT
from deploy.setup.test_packages import ensure_test_packages, ensure_test_tools
from deploy.test_runs import by_hand, stress, times
from deploy.test_runs.outcomes import OUTCOMES_VARIABLE, Outcomes, read_outcomes
from deploy.test_runs.repeats import repeat
from deploy.test_runs.second_runs import refusal, run_again
from deploy.test_runs.turn import turn_of_this_run

QUICK = "not java and not browser and not slow"
STORIES = "tests/processes/cluster/test_stories.py"
EVERY_MEMBER_VARIABLE = "DATABUS_EVERY_MEMBER"  # "all": none of a long matrix is left out
WORKERS = 2  # the smallest machine this must run on has two cores
TESTS_FAILED = 1  # pytest's status where tests ran and some failed


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one call is to run. `stress`: how often beside load, 0 for once without it.
    `repeat`: how often with a seed of its own and a line in the record, 0 for once without one.
    `words`: pytest's own."""

    quick: bool = False
    all_stories: bool = False
    every_member: bool = False
    stress: int = 0
    repeat: int = 0
    write_times: bool = False
    words: tuple[str, ...] = ()


def commands(*, quick: bool, words: Sequence[str]) -> list[str]:
    """The one pytest call; tests of one file stay on one worker, for they share servers."""
    call = [sys.executable, "-m", "pytest"]
    if quick:
        call += ["-m", QUICK]
    if not any(word.startswith(("-n", "--numprocesses", "--pdb")) for word in words):
        call += ["-n", str(WORKERS), "--dist", "loadgroup" if quick else "loadfile"]
    chosen = any(
        not word.startswith("-") and (PROJECT_ROOT / word.split("::")[0]).exists() for word in words
    )
    return [*call, *words, *([] if chosen else ["tests"])]


def run(wanted: Wanted) -> int:
    """Run the tests in this environment; the seed of the property tests is printed."""
    ensure_test_packages()
    if not wanted.quick:
        ensure_test_tools()
    seed = int(os.environ.get("DATABUS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"databus: seed {seed} (repeat with DATABUS_SEED={seed})", flush=True)
    turn = turn_of_this_run(seed)
    print(f"databus: {turn.text}", flush=True)
    environment = {**os.environ, **turn.environment, "PYTHONUNBUFFERED": "1"}
    if wanted.every_member or wanted.all_stories:
        environment[EVERY_MEMBER_VARIABLE] = "all"
    words = list(wanted.words)
    if wanted.all_stories:  # one after the other: each has three brokers and its clients
        words = [STORIES, "-n", "0", *words]
    call = commands(quick=wanted.quick, words=words)

    def once(one: int) -> int:
        return _call(call, environment, one)[0]

    if wanted.repeat:
        return repeat(once, wanted.repeat, by_hand.new_seeds(), by_hand.recorder_of(words))
    if wanted.stress:
        with stress.load():
            return repeat(once, wanted.stress, count(seed))
    status, outcomes = _call(call, environment, seed)
    if wanted.write_times:
        times.write_page(outcomes, turn)
    if status != TESTS_FAILED or not outcomes.failures:
        return status
    return _second_runs(outcomes, environment, seed)


def _second_runs(first: Outcomes, environment: Mapping[str, str], seed: int) -> int:
    """Run the failures again where they may; ends with a summary of both runs together."""
    why_not = refusal(first.failures)
    if why_not is not None:
        print(f"databus: {why_not}", flush=True)
        print(first.summary, flush=True)
        return TESTS_FAILED

    def run_alone(node_id: str) -> bool:
        call = [sys.executable, "-m", "pytest", "-n", "0", node_id]
        return _call(call, environment, seed)[0] == 0

    again = run_again(first.failures, run_alone)
    for one in again:
        print(f"databus: {one.line}", flush=True)
    passed = sum(one.passed for one in again)
    counts = {
        **first.counts,
        "passed": first.counts.get("passed", 0) + passed,
        "failed": len(again) - passed,
    }
    print(f"databus: {len(again)} tests ran twice; each is a defect to be found", flush=True)
    print(Outcomes(counts, {}, {}).summary, flush=True)
    return 0 if passed == len(again) else TESTS_FAILED


def _call(call: Sequence[str], environment: Mapping[str, str], seed: int) -> tuple[int, Outcomes]:
    """One run of pytest with this seed: its status and what it wrote down."""
    with tempfile.TemporaryDirectory(prefix="databus-tests-") as folder:
        outcomes = Path(folder) / "outcomes.json"
        variables = {**environment, "DATABUS_SEED": str(seed), OUTCOMES_VARIABLE: str(outcomes)}
        done = subprocess.run(call, cwd=PROJECT_ROOT, env=variables, check=False)
        return done.returncode, read_outcomes(outcomes)
