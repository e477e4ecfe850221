"""What `watch add` says of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from alarm import cli
from alarm.cli import example_lines
from alarm.rules import compile_rules
from bus.contracts.commands import WatchCommand
from bus.domain.expressions.parse import parse


def put(*plates: str) -> WatchCommand:
    return WatchCommand(rule_id="r", op="put", version=1, match={"plate_number": list(plates)})


def test_a_fuzzy_plate_is_put_with_examples_of_its_misreadings() -> None:
    (line,) = example_lines(put("~浙A8D345", "沪B00001", "浙A*"))
    assert line.startswith("浙A8D345 is also met by readings like ")
    assert "浙A80345" in line
    assert line.count(",") == 4


def test_a_pattern_is_put_with_plates_that_it_is_met_by() -> None:
    """A part of one, too; a list's are the list's."""
    (line,) = example_lines(put("浙A*123", "沪B00001"))
    assert line.startswith("浙A*123 is met by plates like 浙A")
    where = parse("plate_number contains Y1234 and plate_number on stolen", "vehicle")
    (line,) = example_lines(WatchCommand(rule_id="r", op="put", version=1, where=where))
    assert line.startswith("*Y1234* is met by plates like ")


def test_other_plates_have_none() -> None:
    assert example_lines(put("沪B00001", "浙A*")) == []


def test_a_rule_that_refers_to_a_list_that_is_not_in_force_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_rules", lambda _: compile_rules([]))
    ctx: Any = None
    where = parse("plate_number on gone and not plate_number on own", "vehicle")
    command = WatchCommand(rule_id="r", op="put", version=1, where=where)
    cli._warn_of_missing_lists(ctx, command)
    assert "no list gone, own is in force" in capsys.readouterr().err
    cli._warn_of_missing_lists(ctx, put("浙A12345"))
    assert capsys.readouterr().err == ""
