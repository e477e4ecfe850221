"""A failed test runs once more, alone, with the same seed; what judges loss never does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.test_runs import run, second_runs, stress
from deploy.test_runs.outcomes import Outcomes, read_outcomes
from deploy.test_runs.repeats import repeat
from deploy.test_runs.second_runs import MOST_SECOND_RUNS, NO_SECOND_RUN, may_run_again, refusal


def test_folders_without_a_second_run_are_there_and_those_that_must_be_are_listed() -> None:
    assert [one for one in NO_SECOND_RUN if not (PROJECT_ROOT / one).is_dir()] == []
    for folder in (
        "simulation", "processes", "dr_mirror", "conformance", "broker/replica",
        "broker/coordinator", "broker/controller", "broker/log",
    ):  # fmt: skip
        assert not may_run_again(f"tests/{folder}/test_a.py::test_b")
    assert may_run_again("tests/broker/logs_of_others/test_a.py::test_b")


def test_too_many_failures_or_one_that_judges_loss_refuse_all_second_runs() -> None:
    few = [f"tests/deploy/test_a.py::test_{number}" for number in range(MOST_SECOND_RUNS)]
    assert refusal(few) is None
    assert refusal([*few, "tests/deploy/test_a.py::test_x"]) is not None
    assert refusal([few[0], "tests/simulation/test_a.py::test"]) is not None


class RecordedCalls:
    """Stands for pytest's processes: what the first run did, and which tests pass alone."""

    def __init__(self, first: Outcomes, passing: Sequence[str] = ()) -> None:
        self.first, self.passing = first, passing
        self.calls: list[tuple[str, int]] = []

    def __call__(self, call: Sequence[str], environment: object, seed: int) -> tuple[int, Outcomes]:
        self.calls.append((call[-1], seed))
        if len(self.calls) == 1:
            return (1 if self.first.failures else 0), self.first
        return (0 if call[-1] in self.passing else 1), Outcomes({}, {}, {})


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ensure_test_packages", lambda: None)
    monkeypatch.setattr(run, "ensure_test_tools", lambda: None)
    monkeypatch.setenv("DATABUS_SEED", "77")


ONE, OTHER = "tests/deploy/test_a.py::test_one", "tests/bus/test_b.py::test_other"
FIRST = Outcomes(
    {"passed": 8, "failed": 2, "skipped": 1}, {ONE: "call: late", OTHER: "setup: gone"}, {}
)


def test_what_passes_alone_passes_and_is_printed_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line is a summary of both runs together."""
    calls = RecordedCalls(FIRST, passing=(ONE, OTHER))
    monkeypatch.setattr(run, "_call", calls)
    assert run.run(run.Wanted()) == 0
    assert calls.calls == [("tests", 77), (ONE, 77), (OTHER, 77)]
    said = capsys.readouterr().out
    assert f"{ONE} passed; the first time: call: late" in said
    assert said.splitlines()[-1] == "10 passed, 0 failed, 1 skipped"


def test_what_fails_again_fails_the_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "_call", RecordedCalls(FIRST, passing=(ONE,)))
    assert run.run(run.Wanted()) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "9 passed, 1 failed, 1 skipped"


def test_where_loss_is_judged_nothing_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {ONE: "call: late", f"{NO_SECOND_RUN[0]}/test_a.py::test_lost": "call: lost"}
    calls = RecordedCalls(Outcomes({"failed": 2}, lost, {}), passing=tuple(lost))
    monkeypatch.setattr(run, "_call", calls)
    assert run.run(run.Wanted()) == 1
    assert len(calls.calls) == 1


def test_repeats_have_seeds_of_their_own_and_a_failure_is_not_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seeds: list[int] = []

    def run_once(seed: int) -> int:
        seeds.append(seed)
        return 1 if seed == 12 else 0

    assert repeat(run_once, 4, count(11)) == 1
    assert seeds == [11, 12, 13, 14]
    assert "failed with DATABUS_SEED=12" in capsys.readouterr().out


def test_the_load_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    begin = subprocess.Popen

    def recorded(*words: object, **more: object) -> subprocess.Popen[bytes]:
        begun.append(begin(*words, **more))  # type: ignore[call-overload]
        return begun[-1]

    monkeypatch.setattr(stress.subprocess, "Popen", recorded)
    with pytest.raises(ZeroDivisionError), stress.load():
        assert begun
        assert all(one.poll() is None for one in begun)
        raise ZeroDivisionError
    assert all(one.poll() is not None for one in begun)


FAILING = """
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2, "two is\\nmore"
@pytest.fixture
def broken():
    yield
    raise ValueError("cannot end")
def test_ends_badly(broken): pass
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_of_pytest_writes_what_failed_and_why(tmp_path: Path, workers: str) -> None:
    """With and without workers of its own; a teardown that fails is a failure of its test."""
    (tmp_path / "test_x.py").write_text(FAILING)
    (tmp_path / "conftest.py").write_text((PROJECT_ROOT / "tests" / "conftest.py").read_text())
    written = tmp_path / "outcomes.json"
    call = [sys.executable, "-m", "pytest", "-n", workers, "--rootdir", str(tmp_path),
            "-c", str(PROJECT_ROOT / "pyproject.toml"), "-p", "no:cacheprovider", str(tmp_path)]  # fmt: skip
    environment = {**run.os.environ, run.OUTCOMES_VARIABLE: str(written)}
    subprocess.run(call, cwd=PROJECT_ROOT, env=environment, check=False, capture_output=True)
    found = read_outcomes(written)
    assert found.summary == "1 passed, 2 failed, 1 skipped"
    reasons = {name.split("::")[-1]: reason for name, reason in found.failures.items()}
    assert reasons["test_fails"].startswith("call: AssertionError: two is")
    assert reasons["test_ends_badly"].startswith("teardown: ValueError: cannot end")


def test_outcomes_survive_their_file(tmp_path: Path, dice: random.Random) -> None:
    outcomes = Outcomes({"passed": dice.randrange(9)}, {ONE: "é\n"}, {ONE: dice.random()})
    outcomes.write(tmp_path / "a")
    assert read_outcomes(tmp_path / "a") == outcomes
    assert read_outcomes(tmp_path / "missing").summary == "0 passed, 0 failed, 0 skipped"


def test_second_runs_keep_their_order_and_reasons() -> None:
    found = second_runs.run_again({ONE: "a", OTHER: "b"}, lambda node_id: node_id == OTHER)
    assert [(one.node_id, one.reason, one.passed) for one in found] == [
        (ONE, "a", False),
        (OTHER, "b", True),
    ]
