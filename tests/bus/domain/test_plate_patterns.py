"""Plates of which a part is named, beside regular expressions that say the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.plate_patterns import LEAST_NAMED, PlatePattern, is_pattern, plate_pattern
from bus.domain.plates import MAX_PLATE_CHARACTERS

SIGNS = {"?": ".", "*": ".*"}
written = st.text(alphabet="浙AB1?*", max_size=9)
plates = st.text(alphabet="浙AB12", min_size=1, max_size=9)


@given(written, plates)
def test_a_pattern_is_met_by_what_its_regular_expression_matches(text: str, plate: str) -> None:
    """Also where a run may be empty, and where a part comes more than once."""
    expected = re.fullmatch("".join(SIGNS.get(sign, sign) for sign in text), plate)
    text = re.sub(r"\*+", "*", text)
    assert PlatePattern(text).is_met_by(plate) == bool(expected)


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_none(text: str) -> None:
    found = plate_pattern(text)
    if found is not None:
        assert LEAST_NAMED <= found.named <= MAX_PLATE_CHARACTERS
        assert plate_pattern(found.text) == found
        found.is_met_by("浙A12345")


@pytest.mark.parametrize(
    ("text", "form"),
    [("浙a·1?345", "浙A1?345"), ("＊３４５", "*345"), ("浙A**12", "浙A*12"), ("浙A-1-#45_", "浙A1?45?"), ("浙A1*-*5", "浙A1*5")],
)
def test_it_is_written_as_people_write_plates(text: str, form: str) -> None:
    """Full width, small letters, printed separators; every mark of one character is `?`."""
    assert is_pattern(text)
    assert plate_pattern(text) == PlatePattern(form)


@pytest.mark.parametrize("text", ["*", "浙A*", "?????", "*12*", "*·-*", "浙" * 17 + "*", "???" * 5 + "123"])
def test_one_that_names_too_little_or_is_longer_than_a_plate_is_none(text: str) -> None:
    assert plate_pattern(text) is None


@pytest.mark.parametrize("text", ["", "浙A12345", "浙A-12345", "无车牌", "\u200b"])
def test_a_plate_in_full_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)
