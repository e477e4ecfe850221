"""The verdict depends on the current rule and on the whole record."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from alarm.rules import compile_rules, verdict
from bus.contracts.alarms import MAX_RECORD_CHARACTERS, Candidate, ReadingPrice
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_table import PACKAGED
from bus.domain.rule_check import parsed_where

RECORD = {"卡口编号": "110110#1#0#0", "车牌号码": "浙 AWL999", "车辆颜色": "白色",
          "抓拍设备地址": "192.168.1.1", "车辆图片地址": "http://p/1.jpg",
          "抓拍时间": "2017-08-24 17:25:34"}  # fmt: skip
RULE = WatchCommand(rule_id="r", op="put", version=5, name="被盗", severity="critical",
                    match={"plate_number": ["浙AWL999"], "vehicle_color": ["白色"]})  # fmt: skip


def candidate(record: Mapping[str, object] = RECORD, version: int = 5) -> Candidate:
    return Candidate(rule_id="r", rule_version=version, record_id="id-1", kind="vehicle",
                     received_at_ms=200, captured_at_ms=100,
                     record=msgspec.json.encode(record).decode())  # fmt: skip


def test_a_match_becomes_an_alarm_with_place_time_and_picture() -> None:
    """Everything an operator needs is on it; the id is rule and record."""
    alarm = verdict(compile_rules([RULE]), candidate(), now_ms=300)
    assert alarm is not None
    assert (alarm.alarm_id, alarm.rule_name, alarm.severity) == ("r:id-1", "被盗", "critical")
    assert (alarm.checkpoint_id, alarm.plate_number) == ("110110#1#0#0", "浙 AWL999")
    assert (alarm.camera_ip, alarm.picture_url) == ("192.168.1.1", "http://p/1.jpg")
    assert (alarm.captured_at_ms, alarm.received_at_ms, alarm.raised_at_ms) == (100, 200, 300)
    assert alarm.attributes == {"plate_number": "浙AWL999", "vehicle_color": "白色"}
    assert msgspec.json.decode(alarm.record) == RECORD


def test_an_alarm_of_an_emergency_rule_says_so_and_of_an_approved_one_does_not() -> None:
    """Whoever is sent out knows that nobody has approved it yet."""
    for hours in (0, 2):
        rule = msgspec.structs.replace(RULE, emergency_hours=hours)
        alarm = verdict(compile_rules([rule]), candidate(), now_ms=300)
        assert alarm is not None
        assert alarm.is_emergency is (hours > 0)


def test_a_record_that_is_too_long_for_an_alarm_raises_it_without() -> None:
    """The message must stay below what brokers take: the alarm counts more than its evidence."""
    long = verdict(compile_rules([RULE]), candidate({**RECORD, "x": "y" * MAX_RECORD_CHARACTERS}), 300)
    assert long is not None
    assert (long.alarm_id, long.record) == ("r:id-1", "")


def test_an_alarm_of_a_tree_says_which_branch_held() -> None:
    """By the whole record, and by its times."""
    text = "vehicle_color = 黑色 or (during 08:00-08:01 and plate_number contains WL99)"
    rule = msgspec.structs.replace(RULE, match={}, where=parsed_where("vehicle", text, "Asia/Shanghai"))
    alarm = verdict(compile_rules([rule]), candidate(), 300)
    assert alarm is not None
    assert alarm.branch == "during 08:00-08:01 in Asia/Shanghai and plate_number contains \"WL99\""
    assert alarm.attributes == {"vehicle_color": "白色", "plate_number": "浙AWL999"}


def test_a_rule_that_was_removed_meanwhile_raises_nothing() -> None:
    """The candidate was made before the removal."""
    removed = WatchCommand(rule_id="r", op="remove", version=6)
    assert verdict(compile_rules([RULE, removed]), candidate(), 300) is None


def test_the_rule_as_it_now_stands_decides() -> None:
    """A candidate of an older version meets the newer rule or nothing."""
    narrower = msgspec.structs.replace(RULE, version=7, match={"vehicle_color": ["黑色"]})
    assert verdict(compile_rules([RULE, narrower]), candidate(version=5), 300) is None


def test_an_expired_rule_raises_nothing() -> None:
    """Neither capture nor arrival is within its period."""
    expired = msgspec.structs.replace(RULE, valid_until_ms=50)
    assert verdict(compile_rules([expired]), candidate(), 300) is None


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_candidate_without_a_record_is_an_error_of_the_message(text: str) -> None:
    """The only exception it may raise is the decoder's."""
    broken = msgspec.structs.replace(candidate(), record=text)
    with pytest.raises(msgspec.DecodeError):
        verdict(compile_rules([RULE]), broken, 300)


def misread(text: str, read: str, confidences: str = "", further: object = None) -> ReadingPrice | None:
    rule = msgspec.structs.replace(RULE, match={}, where=parsed_where("vehicle", text, "Asia/Shanghai"))
    record = {**RECORD, "车牌号码": read, "车牌逐字置信度": confidences, "车牌候选": further}
    alarm = verdict(compile_rules([rule]), candidate(record), 300)
    assert alarm is not None
    assert alarm.target == (alarm.misread.plate if alarm.misread else "浙A8D345")
    return alarm.misread


def test_an_alarm_of_a_misread_plate_says_what_was_read_and_what_that_costs() -> None:
    """By the price that decided, which the reader's doubt lowers."""
    text = 'plate_number resembles "浙A8D345" up to 1.5'
    sure, unsure = misread(text, "浙A80345", "99,99,99,99,99,99,99"), misread(text, "浙a·80345", "9,9,9,9,9,9,9")
    assert sure is not None
    assert unsure is not None
    assert (sure.plate, sure.read, sure.highest) == ("浙A8D345", "浙A80345", 1.5)
    assert 0 < unsure.price < sure.price <= 1.5
    assert misread(text, "浙A8?345") == ReadingPrice(
        plate="浙A8D345", read="浙A8?345", price=unread_price("D"), highest=1.5
    )


def test_an_alarm_by_a_further_candidate_says_which_one_and_how_sure_the_reader_is() -> None:
    found = misread('plate_number resembles "浙A8D345"', "沪B00000", "", [{"车牌号码": "浙A8D345", "权重": 25}])
    price = round(PACKAGED.prices.candidate(0.25), 3)
    assert found == ReadingPrice(plate="浙A8D345", read="浙A8D345", price=price, highest=1.0, weight=0.25)


def test_a_plate_that_was_read_as_it_is_is_not_misread_though_it_resembles_another() -> None:
    text = 'plate_number resembles "浙A8D345" or plate_number resembles "浙A80345"'
    assert misread(text, "浙A8D345", "9,9,9,9,9,9,9") is None
    assert misread('plate_number in (浙A8D345) or plate_number resembles "浙A80345"', "浙A8D345") is None


def test_of_two_plates_that_a_reading_may_be_the_cheaper_one_is_meant() -> None:
    """Whatever stands below a `not` is never meant."""
    text = 'plate_number resembles "浙A8X345" or plate_number resembles "浙A8D345"'
    found = misread(f'({text}) and plate_number not resembles "沪A80345" up to 0.5', "浙A80345")
    assert found is not None
    assert found.plate == "浙A8D345"


def unread_price(character: str) -> float:
    return round(PACKAGED.prices.unread[character], 3)
