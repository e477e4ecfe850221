"""Values are compared in one form, plates in that of the store."""

from __future__ import annotations

import random

import pytest

from alarm.rules.fields import attributes_of, normal, normal_plate
from ingest.normalise import plate_key


@pytest.mark.parametrize(
    "written", ["浙AWL999", "浙 AWL999", "浙Ａｗｌ９９９", "浙A·WL999", " 浙awl999 "]
)
def test_one_plate_in_many_spellings_is_one_plate(written: str) -> None:
    """The book prints the plate with a space once (Q-0)."""
    assert normal_plate(written) == "浙AWL999"


@pytest.mark.parametrize("unread", ["", "识别异常", "无车牌", "浙A?L999", "浙A*999", "浙A_L999"])
def test_what_was_not_read_is_no_plate(unread: str) -> None:
    """A rule must never match by an unread value."""
    assert normal_plate(unread) == ""


def test_the_plate_of_rules_is_the_plate_of_the_store(dice: random.Random) -> None:
    """A plate that names a vehicle has the same form on both sides."""
    signs = "浙京沪AWL09Ｚｚ ·•?*_-#×　"
    for _ in range(3000):
        plate = "".join(dice.choices(signs, k=dice.randrange(1, 10)))
        assert normal_plate(plate) == plate_key(plate), plate


def test_features_ignore_width_case_and_spaces() -> None:
    """`2014 指南者 2.4L` is written in many ways."""
    assert normal("２０１４ 指南者 2.4l") == normal("2014指南者2.4L")


def test_only_known_read_attributes_are_found() -> None:
    """Unknown keys, unread values and nested values are no attributes."""
    message = {"车牌号码": "浙AWL999", "车辆颜色": "识别异常", "车系": ["x"], "新键": "y", "车速": 60,
               "车辆品牌": None}  # fmt: skip
    assert attributes_of("vehicle", message) == {"plate_number": "浙AWL999", "speed_kmh": "60"}
