"""A plate that a rule looks for although it may be misread: what people type."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.domain.fuzzy_plate import MOST_HIGHEST, FuzzyPlate, fuzzy_plate, is_fuzzy
from bus.domain.plates import wanted_vehicle


def test_mark_price_and_plate_are_read_in_the_width_of_either_script() -> None:
    assert fuzzy_plate("~浙A12345") == FuzzyPlate("浙A12345", 1.0)
    assert fuzzy_plate(" ～ 浙a·12345 ") == FuzzyPlate("浙A12345", 1.0)
    assert fuzzy_plate("~0.7:浙A12345") == FuzzyPlate("浙A12345", 0.7)
    assert fuzzy_plate("～１．５：浙ＡＤ１２３４５") == FuzzyPlate("浙AD12345", 1.5)


@given(st.one_of(st.text(), st.text(alphabet="~～浙A1?*-:.5 e", max_size=12)))
def test_any_text_is_a_plate_in_its_normal_form_or_none(text: str) -> None:
    found = fuzzy_plate(text)
    is_fuzzy(text)
    if found is not None:
        assert found.plate == wanted_vehicle(found.plate)
        assert 0 < found.highest <= MOST_HIGHEST
        assert fuzzy_plate(f"~{found.highest}:{found.plate}") == found
