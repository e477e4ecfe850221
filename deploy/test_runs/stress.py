"""`databus test --stress N PATTERN`: repeats beside load, to find what fails by chance.

In: how often, the words that choose. Out: the seeds that failed. Never: a second try of a failure.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

ENDLESS_WORK = "while True: sum(range(100_000))"
END_TIMEOUT_S = 10


@contextlib.contextmanager
def load() -> Iterator[None]:
    """One process a core that never waits; ended with the block, also by an error or Ctrl-C."""
    workers = [
        subprocess.Popen([sys.executable, "-c", ENDLESS_WORK], stdin=subprocess.DEVNULL)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait(END_TIMEOUT_S)


def repeat(times: int, seed: int, run_once: Callable[[int], int]) -> int:
    """So many runs, each with the next seed. `run_once`: seed → exit status. Returns the worst."""
    failed: dict[int, int] = {}
    with load():
        for number in range(times):
            status = run_once(seed + number)
            if status:
                failed[seed + number] = status
            print(f"databus: run {number + 1} of {times}: {len(failed)} failed", flush=True)
    for one in failed:
        print(f"databus: failed with DATABUS_SEED={one}", flush=True)
    return max(failed.values(), default=0)
