"""`bench alarms`: what alarms cost, and how soon they are shown and what is asked for is in force.

In: which figures, how often. Out: samples. Never: an end because one figure cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from deploy.bench.alarms import (
    evidence,
    face_matching,
    list_import,
    many_rules,
    matching_cost,
    screens,
    stored_plates,
)
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt, chosen_figures

PREFIX = "alarms-"

Figures = Callable[[int], Mapping[str, float]]
"""One run, by its number: what each figure came to."""
_RUNS: tuple[tuple[str, Sequence[str], Figures], ...] = (
    ("a list of a million plates", list_import.NAMES, list_import.list_figures),
    ("conditions on plates", matching_cost.NAMES, matching_cost.matching_figures),
    ("a gallery of faces", face_matching.NAMES, face_matching.face_figures),
    ("alarms before operators", screens.NAMES, lambda _: screens.screen_figures()),
    ("evidence", evidence.NAMES, lambda _: evidence.evidence_figures()),
    ("plates in a store", stored_plates.NAMES, lambda _: stored_plates.stored_figures()),
    ("rules on one machine", many_rules.ONE_NAMES, lambda _: many_rules.of_one_machine()),
    ("rules on a city's servers", many_rules.CITY_NAMES, lambda _: many_rules.of_a_city()),
)


def chosen(only: str) -> list[str]:
    """`list-import,list-line` as names of figures, `list` as all of lists; all where it is
    empty."""
    return chosen_figures(PREFIX, only)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Kind by kind, run by run."""
    recorder = SampleRecorder(names, repeat, say)
    for what, figures, run in _RUNS:
        if not set(figures) & set(names):
            continue
        for number in range(repeat):
            for name, value in (attempt(what, partial(run, number), say) or {}).items():
                if name in names:
                    recorder.add(name, value, of="ours")
            yield from recorder.samples()
