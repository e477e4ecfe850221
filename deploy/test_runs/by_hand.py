"""`databus test --repeat N`: the same tests again and again, by hand, with a record of every run.

In: the words of the tests, how often. Out: a line of JSON per run in `docs/runs_by_hand.jsonl`;
exit status 1 if one failed. Never: a run without its line, also one that was interrupted; a line
that is changed later.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from deploy.paths import PROJECT_ROOT

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


def repeat(
    run: Callable[[int], int], tests: Sequence[str], times: int, record: Path = RECORD
) -> int:
    """`run` gets the seed of each run, and returns pytest's exit status."""
    dice = random.SystemRandom()
    failed = 0
    for number in range(times):
        seed = dice.randrange(1 << 32)
        print(f"databus: run {number + 1} of {times}", flush=True)
        begun_s, outcome = time.monotonic(), INTERRUPTED
        try:
            status = run(seed)
            outcome = OUTCOMES.get(status, f"exit status {status}")
            failed += status != 0
        finally:
            seconds = round(time.monotonic() - begun_s)
            append(record, RecordedRun(
                at=datetime.now(UTC).isoformat(timespec="seconds"), commit=present_commit(),
                tests=tuple(tests), seed=seed, outcome=outcome, seconds=seconds,
                cores=os.cpu_count() or 1,
            ))  # fmt: skip
    print(f"databus: {times - failed} of {times} runs passed; kept in {record}", flush=True)
    return 1 if failed else 0


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
