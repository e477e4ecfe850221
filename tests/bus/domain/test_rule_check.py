"""Which rules may be put, by console, API and command line alike."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.rules.ruleset import compile_rules
from bus.contracts.commands import WatchCommand
from bus.domain.kinds import WIRE_KEYS
from bus.domain.matchable import MATCHABLE
from bus.domain.plate_patterns import is_pattern, plate_pattern
from bus.domain.plates import MARKS, MAX_PLATE_CHARACTERS
from bus.domain.rule_check import MAX_VALUES, RuleError, check_rule
from bus.domain.rule_targets import text_sha256
from bus.domain.rule_values import attributes_of

NOW_MS = 1_000_000
TEXTS = st.text(max_size=120)
PLATES = st.text("浙沪京AB0189-*?#_× .·\0\u200b\u115f", min_size=1, max_size=10)
COMMANDS = st.builds(
    WatchCommand,
    rule_id=st.just("r"),
    op=st.just("put"),
    version=st.just(1),
    name=st.sampled_from(["", "n", "n" * 101]),
    note=st.text(max_size=20),
    match=st.dictionaries(
        st.sampled_from([*MATCHABLE["vehicle"], *MATCHABLE["face"], "nonsense"]),
        st.lists(TEXTS | PLATES | st.sampled_from(["识别异常", "无车牌", "\u200b", "NULL"]), max_size=3),
        max_size=3,
    ),
    kind=st.sampled_from(["vehicle", "face"]),
    valid_from_ms=st.integers(-5, 2 * NOW_MS) | st.just(1 << 60),
    valid_until_ms=st.integers(-5, 2 * NOW_MS) | st.just(1 << 60),
)  # fmt: skip


def put(match: dict[str, list[str]], kind: str = "vehicle") -> WatchCommand:
    return WatchCommand(rule_id="r", op="put", version=1, name="n", kind=kind, match=match)  # type: ignore[arg-type]


def fault_of(command: WatchCommand) -> RuleError | None:
    try:
        check_rule(command, NOW_MS)
    except RuleError as error:
        return error
    return None


@given(COMMANDS)
def test_a_rule_is_sound_or_names_the_field_at_fault(command: WatchCommand) -> None:
    """What passes is whole; what does not says which of its fields is wrong."""
    fault = fault_of(command)
    if fault is not None:
        assert fault.field in {*WatchCommand.__struct_fields__, *command.match}
        assert str(fault)
        return
    assert command.name
    assert command.match
    for attribute, values in command.match.items():
        assert attribute in MATCHABLE[command.kind]
        assert 1 <= len(values) <= MAX_VALUES


@given(COMMANDS | st.builds(put, st.fixed_dictionaries({"plate_number": st.lists(PLATES, min_size=1, max_size=3)})))
def test_each_value_of_a_rule_that_is_taken_meets_a_record_that_was_written_so(
    command: WatchCommand,
) -> None:
    """Whatever is taken can match: a record that has exactly what the rule says meets it."""
    if fault_of(command) is not None:
        return
    keys = {name: key for key, name in _names(command.kind).items()}
    rules = compile_rules([command])
    at_ms = max(command.valid_from_ms, NOW_MS)
    for attribute, values in command.match.items():
        for value in values:
            record = {keys[a]: _met_by(a, own[0]) for a, own in command.match.items()}
            record[keys[attribute]] = _met_by(attribute, value)
            read = msgspec.json.decode(msgspec.json.encode(record), type=dict[str, object])
            assert rules.match(command.kind, attributes_of(command.kind, read), [at_ms]), (attribute, value)


def _met_by(attribute: str, value: str) -> str:
    """A value that one of a rule accepts: of a plate that is named in part, one like it."""
    pattern = plate_pattern(value) if attribute == "plate_number" and is_pattern(value) else None
    if pattern is None:
        return value
    one = pattern.text.replace("?", "7")
    return one.replace("*", "7") if len(one) <= MAX_PLATE_CHARACTERS else one.replace("*", "")


def _names(kind: str) -> dict[str, str]:
    return {key: name for name, key in WIRE_KEYS[kind].items()}


@pytest.mark.parametrize("kind", sorted(MATCHABLE))
def test_every_attribute_a_rule_may_ask_for_is_accepted(kind: str) -> None:
    """The form offers exactly these."""
    for attribute in MATCHABLE[kind]:
        check_rule(put({attribute: ["x"]}, kind), NOW_MS)


@pytest.mark.parametrize("mark", [*sorted(set(MARKS) - {"-"}), "＊", "？", "＃", "＿"])
def test_a_part_of_a_plate_has_to_name_three_characters_and_the_answer_says_so(mark: str):
    """Fewer are met by the cars of a whole district."""
    check_rule(put({"plate_number": ["浙A12345", f"浙A{mark}123"]}), NOW_MS)
    fault = fault_of(put({"plate_number": ["浙A12345", f"浙A{mark}"]}))
    assert fault is not None
    assert (fault.field, fault.code) == ("plate_number", "pattern")
    assert "at least 3 letters or digits" in str(fault)


@pytest.mark.parametrize("plate", ["~浙A12345", "～浙A·12345", "~0.7:浙A12345", "~２：浙AD12345"])
def test_a_plate_that_may_be_misread_is_accepted(plate: str):
    check_rule(put({"plate_number": [plate]}), NOW_MS)


@pytest.mark.parametrize(
    "plate",
    ["~", "~浙A123", "~浙A1?345", "~浙A*", "~3:浙A12345", "~0.1:浙A12345", "~nan:浙A12345",
     "~x:浙A12345", "~:浙A12345", "~浙A1浙345", "~无车牌", "~~浙A12345"],
)  # fmt: skip
def test_a_plate_that_may_be_misread_is_whole_and_the_answer_says_so(plate: str):
    fault = fault_of(put({"plate_number": ["浙A12345", plate]}))
    assert fault is not None
    assert (fault.field, fault.code) == ("plate_number", "fuzzy")
    assert "~0.7:" in str(fault)


@pytest.mark.parametrize("value", ["识别异常", "无车牌", "未知", "NULL", "\u200b", "\0", "-", "x" * 17, "!!!"])
def test_a_value_that_no_record_has_is_refused(value: str):
    """It would stand on the list and look for nothing."""
    fault = fault_of(put({"plate_number": [value]}))
    assert fault is not None
    assert fault.code == "unread"


def test_a_foreign_plate_is_found_with_its_hyphens_and_without():
    """Regression: a rule for AB-102-CD was taken for a masked plate and never matched."""
    command = put({"plate_number": ["AB-102-CD"]})
    check_rule(command, NOW_MS)
    rules = compile_rules([command])
    for written in ("AB-102-CD", "AB102CD", "ab 102 cd", "AB\u200b-102-CD"):
        assert rules.match("vehicle", attributes_of("vehicle", {"车牌号码": written})), written


def test_every_unassigned_or_unseen_value_alone_is_refused():
    """Whatever has no letter, digit or sign to compare."""
    for code in (*range(0x20), 0x7F, 0xAD, 0x115F, 0x3164, 0xFFA0, 0x200B, 0xE0100, 0xFEFF):
        for attribute in ("plate_number", "vehicle_color"):
            assert fault_of(put({attribute: [chr(code)]})), unicodedata.name(chr(code), hex(code))


def test_the_id_of_a_lists_own_rule_is_no_other_rules() -> None:
    fault = fault_of(msgspec.structs.replace(put({"plate_number": ["浙A1"]}), rule_id="list/stolen"))
    assert fault is not None
    assert (fault.field, fault.code) == ("rule_id", "reserved")


@pytest.mark.parametrize(("target", "case", "code"), [
    ("driver", "K-1", ""), ("司机", "K-1", ""), ("", "", ""), ("x" * 64, "K-1", ""), ("driver", " ", "target_no_case"),
    ("x" * 65, "K-1", "target_length"), (" driver", "K-1", "target_length"), ("a\nb", "K-1", "target_length"),
    ("a\0b", "K-1", "target_length"),
])  # fmt: skip
def test_a_target_has_a_name_that_can_be_read_and_a_case(target: str, case: str, code: str) -> None:
    rule = msgspec.structs.replace(put({"plate_number": ["浙A12345"]}), target=target, case=case)
    fault = fault_of(rule)
    assert (fault.code if fault else "") == code


def test_the_digest_of_a_text_has_the_case_where_it_names_a_target() -> None:
    """Whoever approves it approves which target it is; else the case belongs to the request alone."""
    rule = msgspec.structs.replace(put({"plate_number": ["浙A12345"]}), case="K-1")
    assert text_sha256(rule) == text_sha256(msgspec.structs.replace(rule, case="K-2"))
    named = msgspec.structs.replace(rule, target="driver")
    others = [msgspec.structs.replace(named, case="K-2"), msgspec.structs.replace(named, target="wife"), rule]
    assert len({text_sha256(one) for one in (named, *others)}) == 4
    assert text_sha256(named) == text_sha256(msgspec.structs.replace(named, case=" K-1 ", reason="x"))
