"""The command line's own arithmetic: which word is the verb."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deploy.cli import command_of, global_first, mount_commands
from deploy.errors import OperatorError
from deploy.settings.composed import load


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        ([], ""),
        (["--help"], ""),
        (["run", "edge"], "run"),
        (["--set", "run.x=1", "--data-dir", "run", "broker", "run"], "broker"),
        (["--set=city.rate=5", "--config", "a.toml", "run", "city"], "run"),
    ],
)
def test_the_verb_is_the_first_word_that_belongs_to_no_option(words: list[str], verb: str) -> None:
    """`run` decides whether the other packages' commands are loaded at all."""
    assert command_of(words) == verb


@pytest.mark.parametrize(
    ("words", "ordered"),
    [
        (["up", "--data-dir", "here"], ["--data-dir", "here", "up"]),
        (["cluster", "up", "--set=a.b=1", "--brokers", "3"],
         ["--set=a.b=1", "cluster", "up", "--brokers", "3"]),
        (["topics", "create", "t", "--config", "k=v"], ["topics", "create", "t", "--config", "k=v"]),
        (["produce", "t", "--", "--set", "x"], ["produce", "t", "--", "--set", "x"]),
        (["up", "--data-dir"], ["up", "--data-dir"]),
    ],
)  # fmt: skip
def test_general_options_may_stand_behind_the_verb(words: list[str], ordered: list[str]):
    """An operator adds them where he thinks of them; a verb's own options stay its own."""
    assert global_first(words) == ordered


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--sites", "2", "--brokers", "3"], "--sites 2"),
        (["--sites", "2", "--spark-workers", "2"], "--sites 2"),
        (["--planned"], "--planned"),
        (["--kill-broker-at", "40s"], "--brokers 3"),
    ],
)
def test_options_of_the_demo_that_do_not_go_together_are_refused_before_anything_starts(
    words: list[str], named: str, tmp_path: Path
):
    """Regression: some were passed over without a word."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.name == "demo")
    settings = load(environment={}, flags=[f"site.data_dir={tmp_path / 'data'}"])
    done = CliRunner().invoke(app, ["demo", *words], obj=settings)
    assert isinstance(done.exception, OperatorError) or done.exit_code == 1
    assert named in f"{done.exception} {done.output}"
    assert not (tmp_path / "data").exists()
