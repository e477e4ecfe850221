"""Values are compared in one form, plates in that of the store."""

from __future__ import annotations

import msgspec
import pytest

from alarm.rules.ruleset import compile_rules
from bus.contracts.commands import WatchCommand
from bus.domain.plates import plate_key
from bus.domain.rule_values import attributes_of, normal, values_of
from ingest.normalise import Envelope, normalise, partition_key
from ingest.store.port import RecordRow


@pytest.mark.parametrize(
    "written", ["浙AWL999", "浙 AWL999", "浙Ａｗｌ９９９", "浙A·WL999", " 浙awl999 "]
)
def test_one_plate_in_many_spellings_is_one_plate(written: str) -> None:
    """The specification prints the plate once with a space (Q-0)."""
    assert plate_key(written) == "浙AWL999"


@pytest.mark.parametrize("unread", ["", "识别异常", "无车牌", "浙A?L999", "浙A*999", "浙A_L999"])
def test_what_was_not_read_is_no_plate(unread: str) -> None:
    """A rule must never match by an unread value."""
    assert plate_key(unread) == ""


@pytest.mark.parametrize(
    "word",
    ["未知", "无牌车", "未识别", "无牌", "无车牌", "识别异常", "NULL", "null", "None", " 未 知 ", "ｎｕｌｌ", "浙A-L999"],
)  # fmt: skip
def test_what_is_no_plate_is_none_for_rules_store_and_key_alike(word: str) -> None:
    """Regression: a rule for 未知 matched every vehicle whose camera wrote it; the store had no
    plate."""
    rule = WatchCommand(rule_id="w", op="put", version=1, match={"plate_number": [word]})
    message = {"卡口编号": "c", "抓拍时间": "2017-08-24 17:25:34", "车牌号码": word}
    row = normalise(
        msgspec.json.encode(message), "vehicle", Envelope(received_at_ms=0, record_id="x"), None,
        "Asia/Shanghai",
    )  # fmt: skip
    assert isinstance(row, RecordRow)
    assert (row.plate_key, partition_key(row)) == ("", None)
    attributes = attributes_of("vehicle", message)
    assert values_of("plate_number", attributes.get("plate_number", "")) == ()
    assert compile_rules([rule]).match("vehicle", attributes) == []


def test_features_ignore_width_case_and_spaces() -> None:
    """`2014 指南者 2.4L` is written in many ways."""
    assert normal("２０１４ 指南者 2.4l") == normal("2014指南者2.4L")


def test_only_known_read_attributes_are_found() -> None:
    """Unknown keys, unread values and nested values are no attributes."""
    message = {"车牌号码": "浙AWL999", "车辆颜色": "识别异常", "车系": ["x"], "新键": "y", "车速": 60,
               "车辆品牌": None}  # fmt: skip
    assert attributes_of("vehicle", message) == {"plate_number": "浙AWL999", "speed_kmh": "60"}
