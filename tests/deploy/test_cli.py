"""The command line's own arithmetic: which word is the verb."""

from __future__ import annotations

import pytest

from deploy.cli import command_of, global_first


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
