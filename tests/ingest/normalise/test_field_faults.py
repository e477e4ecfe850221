"""Every key of the contract's tables is watched for slips, types, ranges and lengths; one opinion for
the edge's answer and `check-message`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts import keys
from bus.domain.kinds import KEYS_OF_KIND
from bus.domain.parsed_message import ParsedMessage
from ingest.normalise.diagnostics import explain
from ingest.normalise.field_faults import (
    MAX_UNKNOWN_KEYS,
    faults_of,
    field_faults,
    is_address,
)

ZONE = "Asia/Shanghai"
GOOD = {"卡口编号": "c1", "抓拍时间": "2026-11-28 08:00:00.000", "车牌号码": "浙AWL999"}
EVERY_KEY = [(kind, key) for kind, known in KEYS_OF_KIND.items() for key in known]
LISTS = {"目标框", "车牌逐字置信度"}
NUMBERS = {"车速": 400, "车牌置信度": 100, "置信度": 100, "年龄下限": 150, "年龄上限": 150}


def told(found: dict[str, Any], kind: str) -> set[str]:
    """The fields that have a fault, by both ways in, which agree."""
    body = msgspec.json.encode(found)
    faults = faults_of(ParsedMessage(body, kind))
    assert faults == field_faults(found, kind)
    warned = {(f.field, f.message) for f in explain(body, kind, ZONE) if f.level == "warning"}
    assert {(f.field, f.message) for f in faults} <= warned
    return {fault.field for fault in faults}


@pytest.mark.parametrize(
    "record",
    [
        {"车牌号": "浙A12345"}, {"车速": "fast"}, {"车牌置信度": 300}, {"车牌号码": "A" * 10_000},
        {"抓拍设备地址": "999.1.1.1"},
    ],
)  # fmt: skip
def test_what_an_outsider_tried_is_told(record: dict[str, Any]) -> None:
    """Each was 200 without a word."""
    given = {key: value for key, value in GOOD.items() if key != "车牌号码"} | record
    assert told(given, "vehicle") == set(record)


@pytest.mark.parametrize(("kind", "key"), EVERY_KEY)
def test_every_key_is_recognised_when_it_is_misspelt(kind: str, key: str) -> None:
    """A character less, one more, two changed round, full-width, with a space, our English name."""
    middle = len(key) // 2
    slips = {
        key[:-1], key[1:], key + "值", f" {key} ", key[:middle] + "　" + key[middle:],
        KEYS_OF_KIND[kind][key], KEYS_OF_KIND[kind][key].upper(),
    }  # fmt: skip
    others = KEYS_OF_KIND[kind].keys() - {key}
    for slip in slips - others:
        if len(key) == 2 and len(slip) == 1:
            continue  # of one character nothing is left to know it by
        [fault] = field_faults({slip: "x"}, kind)
        assert fault.field == slip
        assert key in fault.message or any(one in fault.message for one in others)
        assert field_faults({slip: "x", **dict.fromkeys([key, *others, *keys.INLINE_PICTURES])}, kind) == []


@pytest.mark.parametrize(("kind", "key"), EVERY_KEY)
def test_every_key_is_told_of_a_wrong_type_and_a_novel(kind: str, key: str) -> None:
    """Lists, objects, truth values; ten thousand letters."""
    wrong: list[Any] = [{"a": 1}, True, *([] if key in LISTS else [[1]])]
    if key != "人脸特征":
        wrong.append("字" * 10_000)
    for value in wrong:
        assert told({key: value}, kind) == {key}, value
    for sound in ("", None, keys.UNREADABLE):
        assert told({key: sound}, kind) == set()


@pytest.mark.parametrize(("key", "most"), sorted(NUMBERS.items()))
def test_numbers_have_their_range_as_numbers_and_as_text(key: str, most: int) -> None:
    """Of every kind that has them."""
    for kind, known in KEYS_OF_KIND.items():
        if key in known:
            for sound in (0, most, str(most), most / 2, str(most / 2)):
                assert told({key: sound}, kind) == set()
            for wrong in (-1, most + 1, str(most + 1), "fast", "nan", 1e400, "1e400"):
                assert key in {f.field for f in field_faults({key: wrong}, kind)}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("10.0.0.1", True), ("fe80::1", True), ("camera-17.city", True), ("cam_3", True),
     ("999.1.1.1", False), ("10.0.0", False), ("10.0.0.01", False), ("10.0.0.1:8000", False),
     ("http://10.0.0.1", False), ("10.0.0.1 ", False), ("", False), ("未知", False)],
)  # fmt: skip
def test_an_address_is_one_of_ip_or_a_hosts_name(text: str, is_one: bool) -> None:
    """Ports, schemes and octets above 255 name no device."""
    assert is_address(text) is is_one


values = st.one_of(
    st.none(), st.booleans(), st.integers(-10, 500), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=40), st.text("0123456789.:- T", max_size=24),
    st.sampled_from(["10.0.0.1", "256.0.0.1", "2026-02-30 00:00:00", "2026-02-28 23:59:59.5",
                     "识别异常", "52", "400", "x" * 300, "识别异常\n", "10.0.0.1\n"]),
    st.lists(st.integers(-1, 101) | st.floats(-0.1, 101) | st.booleans(), max_size=18),
)  # fmt: skip


@settings(max_examples=120)
@given(st.sampled_from(sorted(KEYS_OF_KIND)), st.data())
def test_the_quick_look_passes_nothing_that_has_a_fault(kind: str, data: st.DataObject) -> None:
    """It is only quicker."""
    names = st.sampled_from([*KEYS_OF_KIND[kind], *keys.INLINE_PICTURES, "别的", "车牌号", "plate"])
    found = data.draw(st.dictionaries(names, values, max_size=8))
    assert faults_of(ParsedMessage(msgspec.json.encode(found), kind)) == field_faults(found, kind)


def test_further_candidates_that_no_rule_will_try_are_counted() -> None:
    """The others count, and a record whose candidates are all sound is told nothing."""
    sound = [{"车牌号码": "浙A8D345", "权重": 30}]
    assert told({"车牌候选": sound}, "vehicle") == set()
    [fault] = field_faults({"车牌候选": [*sound, {"车牌号码": "浙A?"}, "浙A80345"]}, "vehicle")
    assert fault.message.startswith("2 of 3 are ignored")


def test_confidences_as_a_list_are_a_number_per_character() -> None:
    """As rules read them."""
    for sound in ([99, 98, 7], [0.99, 0.5, 1], ["浙-80", "A-90"], [], [100] * 16):
        assert told({"车牌逐字置信度": sound}, "vehicle") == set()
    for wrong in ([99, "sure"], [[99]], [True], [101], [-1], [99, None], [0.5] * 17, [10**400], [{"浙": 80}]):
        assert told({"车牌逐字置信度": wrong}, "vehicle") == {"车牌逐字置信度"}


def test_a_thousand_unknown_keys_cost_no_more_than_fifty() -> None:
    """A stranger's object is not compared key by key."""
    found = {f"车牌号码{number}": "x" for number in range(1_000)}
    assert len(field_faults(found, "vehicle")) <= MAX_UNKNOWN_KEYS
