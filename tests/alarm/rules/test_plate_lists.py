"""Lists as they are matched: a leaf of a tree, a rule of their own, an alarm with its line."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alarm.rules import attributes_of, compile_rules, verdict
from alarm.rules.plate_lists import PlateList
from alarm.rules.references import References
from alarm.rules.ruleset import RuleSet
from bus.contracts.alarms import Candidate
from bus.contracts.commands import WatchCommand
from bus.contracts.plate_lists import TOLERANCES, ListLine, Tolerance
from bus.domain.expressions.parse import parse
from bus.domain.list_in_force import is_overdue
from tests.alarm.lists.made_lists import VERSION, made_list
from tests.alarm.lists.test_table import is_meant

DAY_MS = 86_400_000
KIND = "vehicle"
PLATES = ("浙A12345", "浙A8D345", "浙AD12345", "浙B00001")
plates = st.text(alphabet="浙AB8D01", min_size=5, max_size=7)


def put_text(text: str, rule_id: str = "r") -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="put", version=1, name=rule_id, where=parse(text, KIND))


def met(rules: RuleSet, plate: str, **message: object) -> list[str]:
    attributes = attributes_of(KIND, {"车牌号码": plate, **message})
    return [rule.rule_id for rule in rules.match(KIND, attributes)]


def lists_of(*found: PlateList) -> References:
    return References({one.list_id: one for one in found})


def candidate(rule_id: str, plate: str) -> Candidate:
    record = msgspec.json.encode({"车牌号码": plate, "卡口编号": "K1"}).decode()
    return Candidate(
        rule_id=rule_id, rule_version=1, record_id="1" * 32, kind=KIND, received_at_ms=VERSION,
        captured_at_ms=VERSION, record=record, source="",
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    base=st.lists(plates, max_size=8, unique=True),
    added=st.lists(plates, max_size=4, unique=True),
    removed=st.lists(plates, max_size=4),
    asked=st.lists(plates, min_size=1, max_size=6),
    tolerance=st.sampled_from(TOLERANCES),
)
def test_base_and_changes_together_hit_what_a_walk_over_the_lines_in_force_hits(
    tmp_path_factory: pytest.TempPathFactory, base: list[str], added: list[str],
    removed: list[str], asked: list[str], tolerance: Tolerance,
) -> None:  # fmt: skip
    lines = {plate: ListLine(100 + at, plate) for at, plate in enumerate(added)}
    gone = {*removed, *base[:1]} - set(added)
    found = made_list(
        tmp_path_factory.mktemp("lists"), "l", base, tolerance=tolerance, added=lines, removed=gone
    )
    found = pickle.loads(pickle.dumps(found))
    in_force = {plate: ListLine(at, plate) for at, plate in enumerate(base, 2) if plate not in gone}
    in_force |= lines
    for plate in {*asked, *base, *added}:
        meant = [line for line in in_force.values() if is_meant(line, plate, tolerance)]
        best = min(meant, key=lambda line: (line.plate != plate, line.number), default=None)
        line = found.find(plate)
        assert (line and (line.number, line.plate)) == (best and (best.number, best.plate)), plate


def test_a_list_in_force_is_a_rule_of_its_name(tmp_path: Path) -> None:
    rules = compile_rules([], lists_of(made_list(tmp_path, "stolen", PLATES)))
    assert met(rules, "浙 a·12345") == ["list/stolen"]
    assert met(rules, "浙A12346") == []
    command = rules.rules["list/stolen"].command
    assert (command.name, command.severity, command.version) == ("List stolen", "critical", VERSION)


def test_a_list_that_only_rules_refer_to_is_none(tmp_path: Path) -> None:
    own = made_list(tmp_path, "own", PLATES, alarms=False)
    rules = compile_rules([put_text("vehicle_color = 白色 and not plate_number on own")], lists_of(own))
    assert list(rules.rules) == ["r"]
    assert met(rules, "浙A12345", 车辆颜色="白色") == []
    assert met(rules, "浙A99999", 车辆颜色="白色") == ["r"]
    assert met(rules, "浙A99999", 车辆颜色="黑色") == []


@pytest.mark.parametrize("read", ["浙A?2345", "", "无牌", "未识别"])
def test_a_plate_of_which_a_character_was_not_read_meets_neither_a_list_nor_its_negation(
    tmp_path: Path, read: str
) -> None:
    commands = [put_text("plate_number on l", "on"), put_text("plate_number not on l", "off")]
    rules = compile_rules(commands, lists_of(made_list(tmp_path, "l", PLATES, alarms=False)))
    assert met(rules, read) == []


def test_a_list_that_is_not_in_force_is_met_by_nothing_and_so_is_its_negation(tmp_path: Path) -> None:
    commands = [put_text("plate_number on gone", "on"), put_text("plate_number not on gone", "off")]
    rules = compile_rules(commands, lists_of(made_list(tmp_path, "other", PLATES, alarms=False)))
    assert met(rules, "浙A12345") == []
    rules.refer_to(lists_of(made_list(tmp_path, "gone", PLATES, alarms=False)))
    assert met(rules, "浙A12345") == ["on"]
    assert met(rules, "浙A99999") == ["off"]
    rules.refer_to(References())
    assert met(rules, "浙A12345") == []
    assert met(rules, "浙A99999") == []


def test_a_changed_list_compiles_only_the_rules_that_refer_to_it(tmp_path: Path) -> None:
    first, other = made_list(tmp_path, "a", PLATES[:1]), made_list(tmp_path, "b", PLATES[1:])
    commands = [put_text("plate_number on a", "ra"), put_text("plate_number on b", "rb")]
    rules = compile_rules(commands, lists_of(first, other))
    before = dict(rules.rules)
    changed = made_list(tmp_path, "a", ["浙C00009"], version=VERSION + 1)
    assert rules.refer_to(lists_of(changed, other)) is True
    assert met(rules, "浙A12345") == []
    assert met(rules, "浙C00009") == ["list/a", "ra"]
    same = [rule_id for rule_id, rule in rules.rules.items() if before.get(rule_id) is rule]
    assert sorted(same) == ["list/b", "rb"]
    assert rules.refer_to(lists_of(changed, other)) is False
    rules.refer_to(References())
    assert sorted(rules.rules) == ["ra", "rb"]
    for rule_id in ("ra", "rb"):
        rules.matcher.drop(rule_id)
    assert rules.matcher.index == {}


def test_a_tolerant_list_takes_what_is_near_and_an_exact_one_does_not(tmp_path: Path) -> None:
    found: Mapping[Tolerance, list[str]] = {
        "exact": [], "look-alikes": ["浙AB0345"], "distance 1": ["浙A8D346", "浙A8D3457", "浙A8D34"],
    }  # fmt: skip
    for tolerance, near in found.items():
        rules = compile_rules([], lists_of(made_list(tmp_path, "l", ["浙A8D345"], tolerance=tolerance)))
        for plate in ("浙AB0345", "浙A8D346", "浙A8D3457", "浙A8D34", "浙A8X349"):
            assert met(rules, plate) == (["list/l"] if plate in near else []), (tolerance, plate)


def test_a_doubtful_hyphen_is_read_in_each_way(tmp_path: Path) -> None:
    rules = compile_rules([], lists_of(made_list(tmp_path, "l", PLATES)))
    assert met(rules, "浙A-12345") == ["list/l"]  # it separates
    assert met(rules, "浙A-D12345") == ["list/l"]  # it separates: a plate of an electric car


def test_the_alarm_names_list_line_version_and_date(tmp_path: Path) -> None:
    added = {"浙C00009": ListLine(7, "浙C00009", "by hand", "2026-03-02")}
    rules = compile_rules([], lists_of(made_list(tmp_path, "stolen", PLATES, added=added)))
    alarm = verdict(rules, candidate("list/stolen", "浙A8D345"), VERSION)
    assert alarm is not None
    assert alarm.listed is not None
    assert alarm.alarm_id == f"list/stolen:{'1' * 32}"
    assert msgspec.structs.asdict(alarm.listed) == {
        "list_id": "stolen", "name": "List stolen", "version": VERSION, "list_date": "2026-03-01",
        "line": 3, "plate": "浙A8D345", "note": "note 3", "date": "2026-02-01", "is_overdue": False,
        "candidate": "", "weight": 0.0,
    }  # fmt: skip
    by_hand = verdict(rules, candidate("list/stolen", "浙C00009"), VERSION)
    assert by_hand is not None
    assert by_hand.listed is not None
    assert by_hand.listed.note == "by hand"


@pytest.mark.parametrize(
    ("tolerance", "weight", "expected"),
    [("exact", 90, []), ("look-alikes", 9, []), ("look-alikes", 10, ["list/l"]), ("distance 1", 90, ["list/l"])],
)
def test_a_tolerant_list_takes_a_likely_candidate_of_the_reader(
    tmp_path: Path, tolerance: Tolerance, weight: int, expected: list[str]
) -> None:
    """One that stands there as it is: what is unsure already is not taken for something else too."""
    rules = compile_rules([], lists_of(made_list(tmp_path, "l", PLATES, tolerance=tolerance)))
    further = [{"车牌号码": "苏C77777", "权重": 3}, {"车牌号码": "浙A8D345", "权重": weight}]
    assert met(rules, "沪C99999", 车牌候选=further) == expected
    assert met(rules, "沪C9999?", 车牌候选=further) == expected
    assert met(rules, "识别异常", 车牌候选=further) == []
    assert met(rules, "沪C99999", 车牌候选=[{"车牌号码": "浙A80345", "权重": 90}]) == []


def test_the_alarm_of_a_list_names_the_candidate_that_stands_there(tmp_path: Path) -> None:
    rules = compile_rules([], lists_of(made_list(tmp_path, "l", PLATES, tolerance="look-alikes")))
    written = {"车牌号码": "沪C99999", "车牌候选": [{"车牌号码": "浙A8D345", "权重": 0.25}]}
    asked = candidate("list/l", "沪C99999")
    alarm = verdict(rules, msgspec.structs.replace(asked, record=msgspec.json.encode(written).decode()), VERSION)
    assert alarm is not None
    assert alarm.listed is not None
    assert (alarm.listed.plate, alarm.listed.candidate, alarm.listed.weight) == ("浙A8D345", "浙A8D345", 0.25)
    assert alarm.target == "浙A8D345"


def test_the_last_word_is_that_of_the_list_in_force(tmp_path: Path) -> None:
    rules = compile_rules([], lists_of(made_list(tmp_path, "stolen", PLATES, removed=PLATES[:1])))
    assert verdict(rules, candidate("list/stolen", PLATES[0]), VERSION) is None
    assert verdict(rules, candidate("list/stolen", PLATES[1]), VERSION) is not None
    rules.refer_to(References())
    assert verdict(rules, candidate("list/stolen", PLATES[1]), VERSION) is None


def test_an_alarm_of_an_exempting_list_names_no_line(tmp_path: Path) -> None:
    own = made_list(tmp_path, "own", PLATES, alarms=False)
    rules = compile_rules([put_text("plate_number like 浙A* and not plate_number on own")], lists_of(own))
    alarm = verdict(rules, candidate("r", "浙A99999"), VERSION)
    assert alarm is not None
    assert alarm.listed is None


def test_the_alarm_of_a_list_that_was_not_renewed_in_time_says_so(tmp_path: Path) -> None:
    rules = compile_rules([], lists_of(made_list(tmp_path, "l", PLATES, renewal_days=2)))
    for days, expected in ((2, False), (3, True)):
        alarm = verdict(rules, candidate("list/l", PLATES[0]), VERSION + days * DAY_MS)
        assert alarm is not None
        assert alarm.listed is not None
        assert alarm.listed.is_overdue is expected
    never = made_list(tmp_path, "n", PLATES).record
    assert not is_overdue(never, VERSION + 9_999 * DAY_MS)


def test_rules_with_a_list_are_small_to_send(tmp_path: Path) -> None:
    found = made_list(tmp_path, "l", [f"浙A{at:05}" for at in range(20_000)])
    rules = compile_rules([put_text("plate_number on l")], lists_of(found))
    packed = pickle.dumps(rules)
    assert len(packed) < 10_000
    assert met(pickle.loads(packed), "浙A00042") == ["list/l", "r"]
