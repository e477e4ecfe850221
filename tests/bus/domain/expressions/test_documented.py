"""The examples of docs/watchlist.md, in both languages, are rules."""

from __future__ import annotations

import re

import pytest

from bus.domain.expressions.parse import parse
from bus.domain.expressions.to_text import to_text
from deploy.paths import PROJECT_ROOT
from tests.bus.domain.expressions.trees import KIND


@pytest.mark.parametrize("name", ["watchlist.md", "watchlist.zh.md"])
def test_every_documented_example_is_a_rule(name: str) -> None:
    page = (PROJECT_ROOT / "docs" / name).read_text("utf-8")
    [block] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    on_lines = [*block.splitlines(), *re.findall(r"--where '(.*?)'", page)]
    assert len(on_lines) >= 5
    for text in on_lines:
        tree = parse(text, KIND)
        assert parse(to_text(tree), KIND) == tree
