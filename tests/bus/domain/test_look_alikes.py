"""Characters that count as one come from the measured table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.look_alikes import (
    GROUPS,
    LEAST_SHARE,
    folded_alike,
    groups_of,
    is_near,
    parts_without_one,
)
from bus.domain.plate_confusion import ConfusionCounts
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from bus.domain.plates import PROVINCES
from tests.bus.domain.plates_one_edit_apart import is_one_edit_apart

texts = st.text(alphabet="浙AB01", max_size=5)


def test_the_groups_are_those_that_readers_confuse() -> None:
    assert GROUPS == ("0DOQU", "1I", "5S", "6G", "8B", "MNW")
    for group in ("0Q", "8B", "6G", "5S", "MN"):
        one, other = group
        rows = FIT.rows[other], FIT.rows[one]
        shares = [
            row.get(read, 0) / sum(row.values())
            for row, read in zip(rows, (one, other), strict=True)
        ]
        assert max(shares) >= LEAST_SHARE, group


def test_the_half_that_was_held_out_gives_the_same_groups() -> None:
    assert groups_of(HELD_OUT) == GROUPS


def test_a_pair_counts_from_the_least_share_on() -> None:
    def counts(wrong: int) -> ConfusionCounts:
        return ConfusionCounts(1, 0, 1, {"A": {"A": 100 - wrong, "B": wrong}, "B": {"B": 9}}, {}, (), ())

    assert groups_of(counts(2)) == ()
    assert groups_of(counts(3)) == ("AB",)


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [("浙A8D345", "浙AB0345", True), ("浙A8D345", "浙A8D346", False), ("浙AI2345", "浙A12345", True),
     ("新A12345", "浙A12345", False)],
)  # fmt: skip
def test_plates_with_look_alikes_have_one_form(one: str, other: str, are_alike: bool) -> None:
    assert (folded_alike(one) == folded_alike(other)) is are_alike


def test_no_province_is_folded() -> None:
    assert folded_alike(PROVINCES) == PROVINCES


@given(one=texts, other=texts)
def test_near_is_equal_or_one_edit_apart_and_then_a_part_is_common(one: str, other: str) -> None:
    expected = one == other or is_one_edit_apart(one, other)
    assert is_near(one, other) is expected
    if expected:
        assert parts_without_one(one) & parts_without_one(other)
