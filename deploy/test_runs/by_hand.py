"""`databus test --repeat N`: the record of runs by hand.

In: the words of the tests, each run. Out: a line of JSON per run in `docs/runs_by_hand.jsonl`.
Never: a line that is changed later.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from deploy.paths import PROJECT_ROOT
from deploy.test_runs.repeats import RepeatedRun

RECORD = PROJECT_ROOT / "docs" / "runs_by_hand.jsonl"
OUTCOMES = {0: "passed", 1: "failed", 5: "no tests"}
"""By pytest's exit status."""
INTERRUPTED = "interrupted"
GIT_S = 5.0


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `commit` is empty where `git` does not say it, and ends with `+` where files were
    changed since; `seed` repeats it (DATABUS_SEED)."""

    at: str
    commit: str
    tests: tuple[str, ...]
    seed: int
    outcome: str
    seconds: int
    cores: int


def new_seeds() -> Iterator[int]:
    """Another one for each run."""
    rng = random.SystemRandom()
    while True:
        yield rng.randrange(1 << 32)


def recorder_of(tests: Sequence[str], record: Path = RECORD) -> Callable[[RepeatedRun], None]:
    """Appends a line for each run of these tests."""

    def keep(run: RepeatedRun) -> None:
        outcome = INTERRUPTED
        if run.status is not None:
            outcome = OUTCOMES.get(run.status, f"exit status {run.status}")
        append(record, RecordedRun(
            at=datetime.now(UTC).isoformat(timespec="seconds"), commit=present_commit(),
            tests=tuple(tests), seed=run.seed, outcome=outcome, seconds=run.seconds,
            cores=os.cpu_count() or 1,
        ))  # fmt: skip

    return keep


def append(record: Path, one: RecordedRun) -> None:
    """One line more."""
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("ab") as file:
        file.write(msgspec.json.encode(one) + b"\n")


def present_commit() -> str:
    """Of the files that are tested."""
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}+" if commit and _git("status", "--porcelain", "-uno") else commit


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=GIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
