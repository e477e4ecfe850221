"""What `watch add` says of a rule."""

from __future__ import annotations

from alarm.cli import example_lines
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
