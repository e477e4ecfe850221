"""What `watch add` says of a rule."""

from __future__ import annotations

from alarm.cli import accepted_examples
from bus.contracts.commands import WatchCommand


def put(*plates: str) -> WatchCommand:
    return WatchCommand(rule_id="r", op="put", version=1, match={"plate_number": list(plates)})


def test_a_fuzzy_plate_is_put_with_examples_of_its_misreadings() -> None:
    (line,) = accepted_examples(put("~浙A8D345", "沪B00001", "浙A*"))
    assert line.startswith("浙A8D345 is also met by readings like ")
    assert "浙A80345" in line
    assert line.count(",") == 4


def test_other_plates_have_none() -> None:
    assert accepted_examples(put("沪B00001", "浙A*")) == []
