"""A rule's tree in the words of a page."""

from __future__ import annotations

import pytest
from hypothesis import given

from bus.contracts.expressions import Expression
from bus.domain.expressions.parse import parse
from bus.domain.expressions.to_text import to_text
from monitor.console.tree_words import tree_lines, with_device_values
from monitor.i18n import texts
from tests.bus.domain.expressions.trees import KIND, trees

TEXT = (
    'plate_number like "浙A*123" and not vehicle_color in (white, 黑色) and speed_kmh between above 80 and 120'
    " or during sat, sun 22:00-06:00 in Asia/Shanghai or vehicle_brand is present"
    " or plate_number resembles 浙A8D345 up to 1.5"
)
CHINESE = """满足任一：
  同时满足：
    车牌号码 形如 浙A*123
    不满足：
      车辆颜色 是 白色 / 黑色
    车速 的数值大于 80 且不大于 120
  时间在 周六，周日 22:00–06:00（Asia/Shanghai）
  车辆品牌 已识别
  车牌号码 是 浙A8D345 或其误读（代价不超过 1.5）"""
ENGLISH = """at least one of:
  all of:
    Plate number is like 浙A*123
    not:
      Vehicle colour is white / black
    Speed is above 80 and at most 120
  time on Sat, Sun 22:00–06:00 (Asia/Shanghai)
  Brand was read
  Plate number is 浙A8D345 or a misreading of it (price at most 1.5)"""


@pytest.mark.parametrize(("language", "words"), [("zh", CHINESE), ("en", ENGLISH)])
def test_an_operator_reads_what_was_understood(language: str, words: str) -> None:
    lines = tree_lines(parse(TEXT, KIND), texts(language))
    assert "\n".join(f"{'  ' * depth}{line}" for depth, line in lines) == words


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", ["人脸与人脸库“wanted”中的一张相似（阈值 0.7）", "人脸特征 已识别"]),
        ("en", ["the face resembles one of the gallery “wanted” (threshold 0.7)", "Face feature was read"]),
    ],
)
def test_an_operator_reads_which_gallery_a_face_is_compared_with(language: str, words: list[str]) -> None:
    tree = parse("face_feature on wanted threshold 0.7 and face_feature is present", "face")
    assert [line for _, line in tree_lines(tree, texts(language))][1:] == words


def test_a_value_is_typed_in_either_language() -> None:
    """As in the form's other fields: what was typed stays beside what devices write."""
    tree = with_device_values(parse("not vehicle_color in (white, 黑色)", KIND))
    assert to_text(tree) == "not vehicle_color in (白色, 白, white, 黑色)"


@given(trees)
def test_every_tree_has_words(tree: Expression) -> None:
    for language in ("zh", "en"):
        assert all(words for _, words in tree_lines(tree, texts(language)))
