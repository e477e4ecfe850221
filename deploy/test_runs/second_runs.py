"""A test that failed runs once more, alone, with the same seed and inputs; each is a defect.

In: the failures of a run. Out: which of them run again, and what came of it.
Never: a second run where loss, order, simulation or determinism is judged: there it hides a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

NO_SECOND_RUN = (
    "tests/alarm/dispatch",
    "tests/broker/controller",
    "tests/broker/coordinator",
    "tests/broker/log",
    "tests/broker/replica",
    "tests/checker",
    "tests/conformance",
    "tests/dr_mirror",
    "tests/ingest/spool",
    "tests/ingest/store",
    "tests/processes",
    "tests/simulation",
    "tests/spark_apps",
)
"""Folders whose tests judge loss, order, simulation or determinism."""
MOST_SECOND_RUNS = 5  # in a whole run; more are no chance but a defect


@dataclass(frozen=True, slots=True)
class SecondRun:
    """One test that ran twice, why, and whether it passed."""

    node_id: str
    reason: str
    passed: bool

    @property
    def line(self) -> str:
        outcome = "passed" if self.passed else "FAILED again"
        return f"run twice, alone: {self.node_id} {outcome}; the first time: {self.reason}"


def may_run_again(node_id: str) -> bool:
    """Whether no folder of the list has the test.

    >>> may_run_again("tests/deploy/test_cli.py::test_a"), may_run_again("tests/simulation/t.py::t")
    (True, False)
    """
    return not any(node_id.startswith(f"{folder}/") for folder in NO_SECOND_RUN)


def refusal(failures: Iterable[str]) -> str | None:
    """Why none of a run's failures is run again; None where all of them are."""
    failed = list(failures)
    if len(failed) > MOST_SECOND_RUNS:
        return f"{len(failed)} tests failed; at most {MOST_SECOND_RUNS} would be run again"
    judged = [one for one in failed if not may_run_again(one)]
    if judged:
        return f"no second run where loss, order or determinism is judged: {judged[0]}"
    return None


def run_again(failures: Mapping[str, str], run_alone: Callable[[str], bool]) -> list[SecondRun]:
    """Each failure once more, one after the other. `run_alone`: node id → whether it passed."""
    return [SecondRun(node_id, reason, run_alone(node_id)) for node_id, reason in failures.items()]
