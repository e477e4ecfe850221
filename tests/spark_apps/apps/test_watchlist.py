"""What meets a rule becomes a candidate, and only valid records do."""

from __future__ import annotations

import json
import random

from alarm.rules import RuleSet, compile_rules, verdict
from bus.contracts.commands import WatchCommand
from bus.contracts.register import Register
from bus.domain.rule_check import parsed_where
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge

ZONE = "Asia/Shanghai"
RECORD = {
    "卡口编号": "c1",
    "车牌号码": "浙AWL999",
    "车辆颜色": "白色",
    "抓拍时间": "2017-08-24 17:25:34",
}
RULES = compile_rules(
    [
        WatchCommand(rule_id="plate", op="put", version=3, match={"plate_number": ["浙AWL999"]}),
        WatchCommand(rule_id="looks", op="put", version=4, match={"vehicle_color": ["白色"]}),
    ]
)


def message(record: object = RECORD, **headers: str) -> StreamMessage:
    body = record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode()
    return StreamMessage("data.vehicle", 2, 9, 1000, body, **headers)


def test_a_record_is_one_candidate_per_rule_it_meets() -> None:
    """With the version of the rule and the record as the device wrote it."""
    found = list(candidates(RULES, [message(record_id="id-1", source="peer")], ZONE))
    assert [(c.rule_id, c.rule_version, c.record_id, c.source) for c in found] == [
        ("looks", 4, "id-1", "peer"), ("plate", 3, "id-1", "peer"),
    ]  # fmt: skip
    assert json.loads(found[0].record) == RECORD


def test_a_record_without_an_id_has_the_same_id_as_in_the_store() -> None:
    """Alarm and row must find each other."""
    stored = judge(message(), Register(), ZONE).row
    assert {c.record_id for c in candidates(RULES, [message()], ZONE)} == {stored.record_id}


def test_records_that_are_not_valid_are_no_candidates() -> None:
    """They have no place or time to report; ingest rejects and counts them."""
    without_time = {key: value for key, value in RECORD.items() if key != "抓拍时间"}
    broken = [message(without_time), message(b"{"), message(b"\xff"), message(b"[1]"), message(b"")]
    assert list(candidates(RULES, broken, ZONE)) == []


def test_a_rule_may_ask_that_something_was_not_read() -> None:
    """Also where nothing was read of what rules ask for; a message that is none stays none."""
    where = parsed_where("vehicle", "plate_number is absent and not during 00:00-01:00", ZONE)
    rules = compile_rules([WatchCommand(rule_id="bare", op="put", version=1, where=where)])
    bare = {key: value for key, value in RECORD.items() if key != "车牌号码"}
    broken = [message(b"{"), message(b"[1]"), message(b"")]
    found = candidates(rules, [message(bare), message(bare | {"车牌号码": "识别异常"}), message(), *broken], ZONE)
    assert [candidate.rule_id for candidate in found] == ["bare", "bare"]


def test_a_misread_or_partly_read_plate_is_a_candidate_and_an_alarm_of_a_fuzzy_rule() -> None:
    """With what the reader says of each character, which only such a rule reads."""
    fuzzy = WatchCommand(rule_id="f", op="put", version=1, match={"plate_number": ["~浙A8D345"]})
    rules = compile_rules([fuzzy])
    for plate, said, is_met in (
        ("浙A80345", "", True),
        ("浙A80345", "99,99,99,55,99,99,99", True),
        ("浙A8?345", "", True),
        ("浙A87345", "99,99,99,99,99,99,99", False),
    ):
        record = RECORD | {"车牌号码": plate, "车牌逐字置信度": said}
        found = list(candidates(rules, [message(record, record_id="id-1")], ZONE))
        assert [one.rule_id for one in found] == ["f"] * is_met, plate
        for candidate in found:
            alarm = verdict(rules, candidate, now_ms=1)
            assert alarm is not None
            assert alarm.plate_number == plate


def test_a_further_candidate_of_the_reader_raises_the_alarm_of_a_fuzzy_rule() -> None:
    """Whatever else stands under that key costs the record nothing."""
    fuzzy = WatchCommand(rule_id="f", op="put", version=1, match={"plate_number": ["~浙A8D345"]})
    rules = compile_rules([fuzzy])
    sound = {"车牌号码": "浙A8D345", "权重": 30}
    for further, is_met in (([sound], True), ([7, sound], True), ("浙A8D345", False), ([{}], False), ({}, False)):
        record = RECORD | {"车牌号码": "沪C00001", "车牌候选": further}
        found = list(candidates(rules, [message(record, record_id="id-1")], ZONE))
        assert [one.rule_id for one in found] == ["f"] * is_met, further
        alarms = [verdict(rules, candidate, now_ms=1) for candidate in found]
        assert [alarm.misread.weight for alarm in alarms if alarm and alarm.misread] == [0.3] * is_met


def test_without_rules_nothing_is_even_decoded() -> None:
    """An empty watch list costs nothing."""
    assert list(candidates(RuleSet(), [message()], ZONE)) == []


def test_every_candidate_of_a_rule_in_force_becomes_an_alarm(dice: random.Random) -> None:
    """Matching and verdict are the same rules: they may not disagree."""
    plates = ["浙AWL999", "浙 AWL999", "浙ａwl999", "浙AWL998", "识别异常", ""]
    for _ in range(200):
        record = RECORD | {
            "车牌号码": dice.choice(plates),
            "车辆颜色": dice.choice(["白色", "黑色"]),
        }
        found = list(candidates(RULES, [message(record)], ZONE))
        assert all(verdict(RULES, candidate, 0) for candidate in found)
        expected = {"looks"} if record["车辆颜色"] == "白色" else set()
        expected |= {"plate"} if plates.index(record["车牌号码"]) < 3 else set()
        assert {c.rule_id for c in found} == expected
