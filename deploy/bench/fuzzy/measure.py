"""`bench fuzzy`: what fuzzy rules find and cost.

In: which figures, how often. Out: samples. Never: an end because one figure cannot be measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from deploy.bench.fuzzy import cost, recall
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt, chosen_figures

PREFIX = "fuzzy-"
RECALL, RECALL_LOW = PREFIX + "recall", PREFIX + "recall-low"
COST, COST_GROWTH = PREFIX + "us", PREFIX + "us-growth"
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t of so many samples, two-sided."""


def chosen(only: str) -> list[str]:
    """`recall,us` as names of figures; all where it is empty."""
    return chosen_figures(PREFIX, only)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """The costs, then the recalls of as many seeds as `recall` says."""
    recorder = SampleRecorder(names, repeat, say)
    if {COST, COST_GROWTH} & set(names):
        for run in range(repeat):
            attempt("the cost of fuzzy rules", partial(_measure_cost, names, run, recorder), say)
            yield from recorder.samples()
    if {RECALL, RECALL_LOW} & set(names):
        attempt("what fuzzy rules find", partial(_measure_recall, names, recorder, say), say)
        yield from recorder.samples()


def lower_end(samples: Sequence[float]) -> float:
    """Of the 95 % interval of their mean."""
    error = statistics.stdev(samples) / math.sqrt(len(samples))
    return statistics.fmean(samples) - _T_95[len(samples)] * error


def _measure_cost(names: Sequence[str], run: int, recorder: SampleRecorder) -> None:
    few = cost.us_per_record(run, cost.RULES)
    many = cost.us_per_record(run, cost.RULES * cost.TIMES_MORE)
    for name, value in ((COST, few), (COST_GROWTH, many / few)):
        if name in names:
            recorder.add(name, value, of=f"{few:.1f} and {many:.1f} µs")


def _measure_recall(names: Sequence[str], recorder: SampleRecorder, say: Say) -> None:
    points: list[float] = []
    for seed in range(1, recall.SEEDS + 1):
        found = recall.compare(seed)
        points.append(100 * (found.fuzzy - found.plain))
        say(f"  seed {seed}: fuzzy {found.fuzzy:.1%}, plain edit distance {found.plain:.1%}")
        if RECALL in names:
            recorder.add(RECALL, points[-1], of=f"seed {seed}")
    if RECALL_LOW in names:
        recorder.add(RECALL_LOW, lower_end(points), of=f"{len(points)} seeds")
