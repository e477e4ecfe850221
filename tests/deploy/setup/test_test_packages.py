"""What only tests need: put in where that is ours to do, named where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.setup import test_packages
from deploy.setup.test_packages import TOOLS, ensure_test_tools
from tests.simulation import commit_seeds


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path without any of the tools."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(test_packages, "SBIN", str(tmp_path))
    monkeypatch.setattr(test_packages, "FONTS", tmp_path)
    return tmp_path


def test_what_cannot_be_installed_is_named_at_the_start(
    nothing_here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each tool, before the first test; before, 21 tests of the browser were skipped and
    without a reason."""
    monkeypatch.setenv("DATABUS_NO_INSTALL", "1")
    ensure_test_tools()
    said = capsys.readouterr().err.splitlines()
    named = [line.removeprefix("databus: SKIPPED ").partition(":")[0] for line in said]
    assert named == [tool.debian for tool in TOOLS]
    assert "chromium" in {tool.debian for tool in TOOLS}


def test_what_can_be_installed_is(
    nothing_here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each missing package is requested and present afterwards."""

    def install(debian: list[str], fedora: list[str]) -> bool:
        (tool,) = (tool for tool in TOOLS if debian == [tool.debian, *tool.debian_besides])
        program = nothing_here / tool.commands[0]
        program.touch()
        program.chmod(0o755)
        return True

    monkeypatch.setattr(test_packages, "install", install)
    ensure_test_tools()
    assert capsys.readouterr().err == ""
    assert all(tool.is_here for tool in TOOLS)


def test_a_tree_without_git_draws_its_worlds_from_the_runs_seed(
    nothing_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `./databus test` ended with four errors on a machine without git."""
    monkeypatch.setenv("DATABUS_SEED", "4711")
    assert commit_seeds.commit() == "4711"
    monkeypatch.setattr(commit_seeds, "PROJECT_ROOT", nothing_here)  # and no repository
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert commit_seeds.commit() == "4711"
