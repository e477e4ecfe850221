"""Which turn a run has and what has changed, with git and without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.test_runs import turn
from deploy.test_runs.turn import packages_of, turn_of_this_run


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABUS_TURN", raising=False)
    monkeypatch.delenv("DATABUS_CHANGED", raising=False)


def commit(folder: Path, file: str) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("x")
    say = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder)]
    subprocess.run([*say, "add", "."], check=True)
    subprocess.run([*say, "commit", "-q", "-m", file], check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_turn_is_the_number_of_commits_and_changes_are_those_of_the_last_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(turn, "PROJECT_ROOT", tmp_path)
    commit(tmp_path, "alarm/old.py")
    for number in range(9):
        commit(tmp_path, f"broker/log/{number}.py")
    commit(tmp_path, "tests/ingest/test_a.py")
    found = turn_of_this_run(seed=5)
    assert (found.number, found.changed) == (11, ("broker",))
    assert "repeat with DATABUS_TURN=11 DATABUS_CHANGED=broker" in found.text


def test_without_a_repository_or_git_the_seed_is_the_turn_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "PROJECT_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert turn_of_this_run(seed=4711).number == 4711
    monkeypatch.setenv("PATH", str(tmp_path))
    found = turn_of_this_run(seed=4711)
    assert (found.number, found.changed) == (4711, ())
    assert "without git" in found.text


def test_a_given_turn_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_TURN", "12")
    monkeypatch.setenv("DATABUS_CHANGED", "bus,ingest")
    assert turn_of_this_run(seed=1).environment == {
        "DATABUS_TURN": "12",
        "DATABUS_CHANGED": "bus,ingest",
    }


def test_packages_own_their_files_only() -> None:
    assert packages_of(["bus/a.py", "bus/b/c.py", "docs/a.md", "bus", "tests/bus/x.py", ""]) == (
        "bus",
    )
