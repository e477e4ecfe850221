"""Rules for plates that may be misread: what they meet, and that their index finds all of it."""

from __future__ import annotations

import math
import pickle
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.rules import attributes_of, compile_rules, matcher
from alarm.rules.fuzzy_plates import FuzzyPlates, parts_of
from alarm.rules.matcher import FEW_COMPARED
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_table import PACKAGED
from bus.domain.fuzzy_plate import FuzzyPlate
from bus.domain.misreading_prices import UNSAID
from bus.domain.plates import plate_form, plate_key, readings
from bus.domain.reading_price import confidence_bands, reading_price


def put(rule_id: str, *plates: str, **others: list[str]) -> WatchCommand:
    match = {"plate_number": list(plates)} | others
    return WatchCommand(rule_id=rule_id, op="put", version=1, match=match)


def met(
    rules: list[WatchCommand], plate: str, confidences: str | list[int] = "", further: object = None, **others: str
) -> list[str]:
    message = {"车牌号码": plate, "车牌逐字置信度": confidences, "车牌候选": further}
    attributes = attributes_of("vehicle", message) | others
    return [rule.rule_id for rule in compile_rules(rules).match("vehicle", attributes)]


def test_a_fuzzy_plate_is_met_by_itself_and_by_a_misreading() -> None:
    assert met([put("r", "~浙A8D345")], "浙A8D345") == ["r"]
    assert met([put("r", "~浙A8D345")], "浙a·8 0345") == ["r"]
    assert met([put("r", "浙A8D345")], "浙A80345") == []


def test_one_edit_of_any_kind_costs_what_the_usual_price_allows() -> None:
    for read in ("浙A8X345", "浙A8D34", "浙A8D3455", "A8D345"):
        assert met([put("r", "~浙A8D345")], read) == ["r"]
        assert met([put("r", "~0.5:浙A8D345")], "浙A8X345") == []


def test_a_reader_that_is_sure_of_another_character_has_not_misread() -> None:
    sure = "99,99,99,99,99,99,99"
    assert met([put("r", "~浙A8X345")], "浙A87345") == ["r"]
    assert met([put("r", "~浙A8X345")], "浙A87345", sure) == []
    assert met([put("r", "~浙A8X345")], "浙A87345", [99] * 7) == []
    assert met([put("r", "~浙A8X345")], "浙A8X345", sure) == ["r"]


@pytest.mark.parametrize("read", ["浙A8?345", "浙A8-345", "浙A8#345"])
def test_a_character_that_was_not_read_may_be_any(read: str) -> None:
    assert met([put("r", "~浙A8D345")], read) == ["r"]
    assert met([put("r", "浙A8D345")], "浙A8?345") == []


def test_a_further_candidate_of_the_reader_is_tried_at_the_price_of_its_weight() -> None:
    """As less sure as the reader is of it, in the units of misread characters; the reading itself
    has nothing to do with the plate."""
    for weight, highest, expected in ((30, 0.5, ["r"]), (0.3, 0.5, ["r"]), (0.001, 0.5, []), (0.001, 0.8, ["r"])):
        further = [{"车牌号码": "浙a·8D345", "权重": weight}, {"车牌号码": "沪C77777", "权重": 0.0001}]
        assert met([put("r", f"~{highest}:浙A8D345")], "苏B99999", further=further) == expected
    near = [{"车牌号码": "浙A80345", "权重": 40}]
    assert met([put("r", "~浙A8D345")], "苏B99999", further=near) == ["r"]
    assert met([put("r", "~0.5:浙A8D345")], "苏B99999", further=near) == ["r"]
    assert met([put("r", "浙A80345", "浙A8?345")], "苏B99999", further=near) == []


def test_of_a_plate_that_was_not_read_no_candidate_counts() -> None:
    further = [{"车牌号码": "浙A8D345", "权重": 99}]
    for read in ("识别异常", "无车牌", ""):
        assert met([put("r", "~浙A8D345")], read, further=further) == []
    assert met([put("r", "~浙A8D345")], "???????", further=further) == []


def test_three_edits_are_another_plate_at_any_price() -> None:
    assert met([put("r", "~2:浙A8D345")], "浙A8XX45") == ["r"]
    assert met([put("r", "~2:浙A8D345")], "浙A8XXX5") == []
    assert met([put("r", "~2:浙A8D345")], "浙A???45") == []


def test_exact_plates_patterns_fuzzy_ones_and_features_stand_in_one_rule() -> None:
    rule = put("r", "沪B00001", "浙B1?345", "~浙A8D345", vehicle_color=["白色"])
    for plate in ("沪B00001", "浙B12345", "浙A80345"):
        assert met([rule], plate, vehicle_color="白色") == ["r"]
        assert met([rule], plate, vehicle_color="黑色") == []
    assert met([rule], "沪B0000?", vehicle_color="白色") == []


def test_a_fuzzy_plate_that_cannot_be_meant_meets_none() -> None:
    """Nor does it make the rule one for every white car."""
    assert met([put("r", "~浙", vehicle_color=["白色"])], "浙A80345", vehicle_color="白色") == []


def test_parts_lack_up_to_two_characters() -> None:
    assert set(parts_of("ABC")) == {"ABC", "BC", "AC", "AB", "A", "B", "C"}
    assert len(parts_of("浙A12345")) == 29


_known = sorted(PACKAGED.prices.taken_for[UNSAID])
inside = st.sampled_from([one for one in _known if one < "一"])
characters = st.sampled_from([*_known, "?", "I", "港"])
weights = st.one_of(st.floats(0.0001, 1), st.integers(1, 100))
highest = st.sampled_from((0.5, 0.7, 1.0, 1.3, 2.0))


@st.composite
def rules_and_readings(draw: st.DrawFn) -> tuple[str, float, str, str]:
    """A plate with its price, and a reading some edits away with confidences or without."""
    first = draw(st.sampled_from(_known))
    plate = first + draw(st.text(inside, min_size=5, max_size=7))
    read = list(plate)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(read) - 1))
        kind = draw(st.sampled_from("sdi"))
        likely = [*PACKAGED.prices.taken_for[UNSAID].get(read[at], ()), "?"]
        sign = draw(st.one_of(characters, st.sampled_from(likely)))
        read[at : at + (kind != "i")] = [] if kind == "d" else [sign]
    sure = draw(st.lists(st.integers(0, 100), min_size=len(read), max_size=len(read)))
    return plate, draw(highest), "".join(read), ",".join(map(str, sure)) * draw(st.booleans())


@given(
    st.lists(rules_and_readings(), min_size=1, max_size=8), st.sampled_from((0, FEW_COMPARED)), st.data()
)
def test_the_index_finds_every_rule_that_a_reading_meets(
    drawn: list[tuple[str, float, str, str]], few: int, data: st.DataObject
) -> None:
    """Also where plates are too many to be compared one by one."""
    with mock.patch.object(matcher, "FEW_COMPARED", few):
        _check_index(drawn, data)


def _check_index(drawn: list[tuple[str, float, str, str]], data: st.DataObject) -> None:
    commands = [
        put(f"r{number}", f"~{price}:{plate}") for number, (plate, price, _, _) in enumerate(drawn)
    ]
    rules = pickle.loads(pickle.dumps(compile_rules(commands)))
    further = st.builds(lambda one, weight: {"车牌号码": one[2], "权重": weight}, st.sampled_from(drawn), weights)
    for _, _, read, confidences in drawn:
        message = {"车牌号码": read, "车牌逐字置信度": confidences, "车牌候选": data.draw(st.lists(further, max_size=3))}
        attributes = attributes_of("vehicle", message)
        plain = {one.rule_id for one in rules.rules.values() if one.matches("vehicle", attributes, ())}
        assert plain <= rules.matcher.candidates("vehicle", attributes)
        assert [one.rule_id for one in rules.match("vehicle", attributes)] == sorted(plain)


@given(rules_and_readings(), st.lists(st.tuples(rules_and_readings(), st.floats(0.0001, 1)), max_size=7))
def test_with_candidates_the_cheapest_of_all_that_may_stand_there_counts(
    drawn: tuple[str, float, str, str], others: list[tuple[tuple[str, float, str, str], float]]
) -> None:
    """As a walk over what was written and the first five of the candidates finds it, those whole."""
    plate, highest, read, confidences = drawn
    further = [(one[2], weight) for one, weight in others]
    message = {"车牌号码": read, "车牌逐字置信度": confidences,
               "车牌候选": [{"车牌号码": one, "权重": weight} for one, weight in further]}  # fmt: skip
    prices = PACKAGED.prices
    form = plate_form(read)
    tried = [(0.0, one, confidence_bands(confidences, one)) for one in readings(form)]
    known = {"", *readings(form)}
    for other, weight in further[:5]:
        key = plate_key(other)
        if form and key not in known:
            known.add(key)
            tried.append((max(0.05, -math.log(weight) / prices.unit), key, (UNSAID,) * len(key)))
    costs = [(price, reading_price(plate, one, prices, highest - price, bands)) for price, one, bands in tried]
    all_in = [price + cost for price, cost in costs if cost is not None and price <= highest]
    found = FuzzyPlates((FuzzyPlate(plate, highest),)).price(attributes_of("vehicle", message))
    assert found == (pytest.approx(min(all_in), abs=1e-4) if all_in else None) or any(
        abs(cost - highest) < 1e-4 for cost in all_in
    )


@given(rules_and_readings())
def test_a_reading_that_equals_the_plate_is_met_and_none_costs_more_than_asked(
    drawn: tuple[str, float, str, str],
) -> None:
    plate, price, read, confidences = drawn
    condition = FuzzyPlates((FuzzyPlate(plate, price),))
    attributes = {"plate_number": read, "plate_character_confidences": confidences}
    found = condition.price(attributes)
    assert found is None or 0 <= found <= price
    assert condition.is_met(attributes | {"plate_number": plate})
