"""Runs by hand leave a record: a line per run, whatever became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from deploy.test_runs.by_hand import RecordedRun, new_seeds, recorder_of
from deploy.test_runs.repeats import repeat


def lines(record: Path) -> list[RecordedRun]:
    return [msgspec.json.decode(line, type=RecordedRun) for line in record.read_bytes().splitlines()]


def test_every_run_has_a_seed_of_its_own_and_a_line_and_a_failure_is_the_exit_status(
    tmp_path: Path,
):
    record, seeds = tmp_path / "docs" / "runs.jsonl", []
    statuses = iter([0, 1, 0, 3])

    def run(seed: int) -> int:
        seeds.append(seed)
        return next(statuses)

    keep = recorder_of(["tests/dr_mirror/copy/test_faults.py"], record)
    assert repeat(run, 4, new_seeds(), keep) == 3
    found = lines(record)
    assert [one.outcome for one in found] == ["passed", "failed", "passed", "exit status 3"]
    assert [one.seed for one in found] == seeds
    assert len(set(seeds)) == 4
    assert {one.tests for one in found} == {("tests/dr_mirror/copy/test_faults.py",)}
    assert repeat(lambda _: 0, 1, new_seeds(), recorder_of(["x"], record)) == 0
    assert len(lines(record)) == 5, "what was kept stays"


@pytest.mark.parametrize("ends", [KeyboardInterrupt, RuntimeError])
def test_a_run_that_was_interrupted_is_not_forgotten(tmp_path: Path, ends: type[BaseException]):
    record = tmp_path / "runs.jsonl"

    def interrupted(_: int) -> int:
        raise ends

    run: Callable[[int], int] = interrupted
    with pytest.raises(ends):
        repeat(run, 3, new_seeds(), recorder_of(["x"], record))
    assert [one.outcome for one in lines(record)] == ["interrupted"]


def test_where_there_is_no_git_the_run_is_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    record = tmp_path / "runs.jsonl"
    assert repeat(lambda _: 0, 1, new_seeds(), recorder_of(["x"], record)) == 0
    assert lines(record)[0].commit == ""
