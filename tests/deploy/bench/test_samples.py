"""What is kept of a bench in which something fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.bench import run as verb
from deploy.bench.ingest import measure
from deploy.bench.report import Samples
from deploy.bench.samples import PartialSamples, SampleRecorder, attempt, each_attempted
from deploy.errors import OperatorError


def test_a_figure_that_fails_is_said_and_ends_nothing() -> None:
    """For any kind of failure."""
    said: list[str] = []

    def fails() -> float:
        raise OSError("no space left")

    assert attempt("ack", fails, said.append) is None
    assert attempt("ack", lambda: 1.5, said.append) == 1.5
    assert said == ["  not measured: ack: OSError: no space left"]


def test_of_a_program_whose_stages_fail_the_other_figures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A city's servers take minutes to start: one late alarm at the highest rate must not cost all."""

    def late() -> float:
        raise OperatorError("5 of about 10 alarms")

    with pytest.raises(PartialSamples, match=r"ended early; b: OperatorError: 5 of about 10 alarms$") as failed:
        each_attempted({"a": lambda: 1.0, "b": late, "c": lambda: 3.0}, "ended early")
    assert failed.value.found == {"a": 1.0, "c": 3.0}

    def work() -> dict[str, float]:
        raise PartialSamples(["x"], {"ingest-b-start": 86.0})

    said: list[str] = []
    monkeypatch.setattr(measure, "PROGRAMS", (("B", ("ingest-b-start", "ingest-b-idle"), work),))
    [samples] = list(measure.measure(["ingest-b-start", "ingest-b-idle"], 1, said.append))
    assert (samples.figure, samples.ours, said[0]) == ("ingest-b-start", [86.0], "  not measured: x")


def test_runs_are_counted_for_each_side_and_given_as_far_as_they_are() -> None:
    """A figure without a run of ours is no row."""
    recorder = SampleRecorder(["memory", "ack-idle"], 2, lambda _: None)
    recorder.add("memory", 1.0, of="a")
    recorder.add("memory", 9.0, of="b", is_kafka=True)
    recorder.add("ack-idle", 9.0, of="b", is_kafka=True)
    assert list(recorder.samples()) == [Samples(figure="memory", ours=[1.0], kafka=[9.0])]
    recorder.add("memory", 2.0, of="a")
    assert [list(each.ours) for each in recorder.samples()] == [[1.0, 2.0]]


def test_what_was_measured_before_the_end_is_kept_with_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is written when it grows, not when all is over."""
    monkeypatch.setattr(verb, "BENCHMARKS", tmp_path / "benchmarks.json")
    monkeypatch.setattr(verb, "DOCUMENT", tmp_path / "benchmarks.md")

    def found() -> Iterator[Samples]:
        yield Samples(figure="memory", ours=[70.0])
        yield Samples(figure="memory", ours=[70.0, 60.0, 50.0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verb._finish(found(), ["memory"], write=True, as_json=True)
    kept = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))["memory"]
    assert kept["runs"] == {"ours": [70.0, 60.0, 50.0], "kafka": []}
    assert "| 3 | 60 MB |" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


def test_a_figure_that_was_never_measured_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """All others may be reached."""
    rows = [Samples(figure="memory", ours=[70.0])]
    assert verb._finish(rows, ["memory"], write=False, as_json=True) == 0
    assert verb._finish(rows, ["memory", "stored"], write=False, as_json=True) == 1
    assert "not measured: stored" in capsys.readouterr().err
