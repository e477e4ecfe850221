"""`python -m tests.simulation --seeds 1..300 --controller kraft`: worlds on seeds, from a terminal;
`--sites 2`: two clusters with a mirror between them; `--tables`: a compacted topic that is cleaned.

In: arguments. Out: a line per seed, all violations of a bad one; exit status 1 if one was bad.
Never: a result that depends on anything but the commit and the seed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from multiprocessing import Pool
from typing import NamedTuple

from tests.simulation.site_story import SiteOutcome, SiteSeedRun
from tests.simulation.story import Outcome, run_seed
from tests.simulation.table_story import run_table_seed

MOST_TOLD = 12


def parse_seeds(text: str) -> range:
    """`7` or `1..300`, both ends inclusive."""
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def summary(outcome: Outcome, seconds: float) -> str:
    """One seed in a few lines."""
    state = "ok  " if not outcome.wrong else "BAD "
    lines = [
        f"{state} {kind_of(outcome)} seed {outcome.seed}  trace {outcome.digest}  "
        f"{outcome.acknowledged} acknowledged, {outcome.virtual_s:.0f} virtual s, "
        f"{outcome.steps} steps, {seconds:.1f} s"
    ]
    lines += [f"     {one}" for one in outcome.wrong[:MOST_TOLD]]
    if len(outcome.wrong) > MOST_TOLD:
        lines.append(f"     ... and {len(outcome.wrong) - MOST_TOLD} more")
    return "\n".join(lines)


def kind_of(outcome: Outcome) -> str:
    """Which kind of world it was."""
    if isinstance(outcome, SiteOutcome):
        return f"{outcome.controller}, two sites, the first {outcome.fate.value},"
    return outcome.controller


class WorldJob(NamedTuple):
    """One world to run."""

    seed: int
    controller: str
    sites: int
    trace: bool
    tables: bool = False


def one(job: WorldJob) -> tuple[Outcome, float]:
    """Run one seed and time it."""
    begun = time.process_time()
    show = print if job.trace else None
    outcome: Outcome
    if job.sites == 2:
        outcome = SiteSeedRun(job.seed, controller=job.controller, show=show).run()
    elif job.tables:
        outcome = run_table_seed(job.seed, job.controller, show=show)
    else:
        outcome = run_seed(job.seed, job.controller, show=show)
    return outcome, time.process_time() - begun


def run(
    seeds: range, controllers: list[str], *, sites: int = 1, jobs: int = 1, trace: bool = False,
    tables: bool = False,
) -> int:
    """Runs all seeds; returns how many were bad."""
    work = [WorldJob(seed, each, sites, trace, tables) for each in controllers for seed in seeds]
    bad: list[Outcome] = []

    def report(result: tuple[Outcome, float]) -> None:
        print(summary(*result), flush=True)
        if result[0].wrong:
            bad.append(result[0])

    if jobs > 1:
        with Pool(jobs, maxtasksperchild=20) as pool:
            for result in pool.imap(one, work):
                report(result)
    else:
        for job in work:
            report(one(job))
    print(f"{len(work) - len(bad)} of {len(work)} worlds were sound")
    for outcome in bad:
        print(f"again: simulate --seed {outcome.seed} --controller {outcome.controller} "
              f"--sites {sites} {'--tables ' if tables else ''}--trace")  # fmt: skip
    return len(bad)


def main() -> int:
    """Read the arguments, run the worlds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1..20", help="as 1..300")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--controller", choices=("kraft", "zookeeper", "both"), default="both")
    parser.add_argument("--sites", type=int, choices=(1, 2), default=1, help="2: with a mirror")
    parser.add_argument("--tables", action="store_true", help="with a table that is cleaned")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--jobs", type=int, default=1, help="worlds at a time")
    parser.add_argument("--log", default="CRITICAL", help="level of the brokers' own log")
    given = parser.parse_args()
    logging.basicConfig(level=given.log, format="           %(levelname)s %(name)s: %(message)s")
    seeds = parse_seeds(given.seeds) if given.seed is None else range(given.seed, given.seed + 1)
    both = ["kraft", "zookeeper"]
    controllers = both if given.controller == "both" else [given.controller]
    if given.tables and given.sites == 2:
        parser.error("--tables is of one site")
    bad = run(seeds, controllers, sites=given.sites, jobs=given.jobs, trace=given.trace,
              tables=given.tables)  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
