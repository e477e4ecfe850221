"""What an alarm's page says of how its plate was read."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.alarms import ListedPlate, ReadingPrice
from monitor.console.rows import listed_facts, misread_facts
from monitor.i18n import texts


@pytest.mark.parametrize(
    ("language", "weight", "text"),
    [
        ("en", 0.0, "read 浙A80345, meant 浙A8D345, price 0.38 of at most 1.00"),
        ("en", 0.25, "read candidate 浙A80345 (25%), meant 浙A8D345, price 0.38 of at most 1.00"),
        ("zh", 0.25, "识别为 候选 浙A80345（25%），目标为 浙A8D345，代价 0.38（上限 1.00）"),
    ],
)
def test_a_further_candidate_is_named_as_one_with_its_weight(language: str, weight: float, text: str) -> None:
    reading = ReadingPrice(plate="浙A8D345", read="浙A80345", price=0.38, highest=1.0, weight=weight)
    [(_, found)] = misread_facts(msgspec.structs.asdict(reading), texts(language))
    assert found == text


def test_of_a_list_the_candidate_that_stands_there_and_the_mark_of_an_overdue_list_are_said() -> None:
    t = texts("en")
    plain = ListedPlate(list_id="stolen", name="Stolen", version=1, line=3, plate="浙A8D345")
    marked = msgspec.structs.replace(plain, is_overdue=True, candidate="浙A8D345", weight=0.25)
    facts = [dict(listed_facts(msgspec.structs.asdict(one), t)) for one in (plain, marked)]
    for name, text in ((t("reading.candidate"), "candidate 浙A8D345 (25%)"), (t("column.overdue"), t("detail.listed_overdue"))):
        assert [bool(one.get(name)) for one in facts] == [False, True]
        assert facts[1][name] == text
