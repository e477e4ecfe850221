"""The same tests again and again: beside load, to find what fails by chance, or for the record.

In: one run as a function of its seed, how often. Out: the seeds that failed, the worst exit status.
Never: a second try of a failure; a run that `keep` is not told of, also one that was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec


class RepeatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `status` is pytest's exit status, None: it was interrupted."""

    seed: int
    status: int | None
    seconds: int


def repeat(
    run: Callable[[int], int],
    times: int,
    seeds: Iterable[int],
    keep: Callable[[RepeatedRun], None] = lambda _: None,
) -> int:
    """`run` gets a seed and returns pytest's exit status; the worst one is returned."""
    failed: dict[int, int] = {}
    for number, seed in enumerate(islice(seeds, times), 1):
        begun_s, status = time.monotonic(), None
        try:
            status = run(seed)
        finally:
            seconds = round(time.monotonic() - begun_s)
            keep(RepeatedRun(seed=seed, status=status, seconds=seconds))
        if status:
            failed[seed] = status
        print(f"databus: run {number} of {times}: {len(failed)} failed", flush=True)
    for seed in failed:
        print(f"databus: failed with DATABUS_SEED={seed}", flush=True)
    return max(failed.values(), default=0)
