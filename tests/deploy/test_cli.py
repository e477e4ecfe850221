"""The command line's own arithmetic: which word is the verb."""

from __future__ import annotations

import pytest

from deploy.cli import verb_of


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
    """`run` decides whether the other rooms' verbs are loaded at all."""
    assert verb_of(words) == verb
