"""The command `simulate` hands its words to the simulation beside the packages, or says that it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.errors import OperatorError
from deploy.test_runs import simulate


def test_one_small_world_is_run_and_its_status_is_ours(capfd: pytest.CaptureFixture[str]) -> None:
    """A seed of one controller, in a process of its own."""
    assert simulate.run(["--seed", "1", "--controller", "kraft", "--jobs", "1"]) == 0
    told = capfd.readouterr().out
    assert "kraft seed 1" in told
    assert "1 of 1 worlds were sound" in told


def test_without_the_projects_tests_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package without a checkout."""
    monkeypatch.setattr(simulate, "PROJECT_ROOT", tmp_path)
    with pytest.raises(OperatorError, match="checkout"):
        simulate.run(["--seed", "1"])
