"""Trees as they are matched: compared with a plain reading, and with an index that misses none."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from alarm.rules import RuleSet, attributes_of, compile_rules
from alarm.rules.explain import explain, true_branch
from alarm.rules.fuzzy_plates import resembled
from alarm.rules.index_cells import ANY_RECORD
from alarm.rules.planner import PlateOnList, cells_of
from alarm.rules.references import References
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Negation,
    NumericRange,
    OneOf,
    OnList,
    Presence,
    RegularExpression,
    Resemblance,
    Substring,
    TimeWindow,
    TravelHeading,
    Wildcard,
)
from bus.domain.confusion_table import PACKAGED
from bus.domain.expressions.indexing import is_indexed
from bus.domain.expressions.leaf_text import number_of, substring_form, wildcard_form
from bus.domain.expressions.parse import parse
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.time_window import is_within
from bus.domain.expressions.tree import with_zone
from bus.domain.look_alikes import folded_alike
from bus.domain.plates import readings, wanted_vehicle
from bus.domain.reading_price import confidence_bands, reading_price
from bus.domain.registered_places import RegisteredPlaces
from bus.domain.rule_values import values_of, wanted
from tests.alarm.lists.made_lists import made_list
from tests.alarm.rules.made_places import REGISTER, heading_there, is_along, is_there
from tests.alarm.rules.test_fuzzy_plates import rules_and_readings
from tests.bus.domain.expressions.trees import KIND, ZONE, moments, records, trees
from tests.bus.domain.plates_one_edit_apart import is_one_edit_apart

MATCHES = (
    {"plate_number": ["浙A12", "*A1?"]}, {"vehicle_color": ["白", "白色"]}, {"plate_number": ["浙A12"], "vehicle_color": ["AB"]},
    {"plate_number": ["~浙A8D345", "~2:浙AD12345", "浙A12", "~浙"]},
)  # fmt: skip
LISTED = {
    "stolen": ("exact", ("浙A8D345", "浙A12", "AB")), "wanted 2": ("look-alikes", ("浙A80345", "ABB1")),
    "own": ("distance 1", ("浙A8D34", "浙AD12345", "浙AB")),
}  # fmt: skip
MONDAY_NOON_MS = 1_772_424_000_000  # 2026-03-02 12:00 in Shanghai


def put(rule_id: str, tree: Expression, **others: list[str]) -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="put", version=1, match=others, where=tree)


def put_text(text: str, **others: list[str]) -> WatchCommand:
    return put("r", with_zone(parse(text, KIND), ZONE), **others)


def met(rules: RuleSet, times_ms: Sequence[int] = (), **message: object) -> list[str]:
    found = rules.match(KIND, attributes_of(KIND, message), times_ms)
    return [rule.rule_id for rule in found]


@pytest.fixture(scope="module", name="references")
def _references(tmp_path_factory: pytest.TempPathFactory) -> References:
    """Lists in force; of "gone" there is none."""
    path = tmp_path_factory.mktemp("lists")
    lists = {
        list_id: made_list(path, list_id, plates, tolerance=tolerance)
        for list_id, (tolerance, plates) in LISTED.items()
    }
    return References(lists, RegisteredPlaces(REGISTER))


def is_listed(list_id: str, plate: str) -> bool:
    """By a walk over the list."""
    tolerance, plates = LISTED[list_id]
    if tolerance == "look-alikes":
        return folded_alike(plate) in map(folded_alike, plates)
    is_near = tolerance == "distance 1" and any(is_one_edit_apart(plate, one) for one in plates)
    return plate in plates or is_near


def plain(tree: Expression, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
    """Three values, from the top, with nothing prepared."""
    match tree:
        case Negation(part=part):
            below = plain(part, attributes, times_ms)
            return None if below is None else not below
        case Conjunction(parts=parts):
            answers = [plain(part, attributes, times_ms) for part in parts]
            return False if False in answers else None if None in answers else True
        case Disjunction(parts=parts):
            answers = [plain(part, attributes, times_ms) for part in parts]
            return True if True in answers else None if None in answers else False
        case AtPlace() | InArea():
            return is_there(tree, attributes)
        case AlongRoad():
            return is_along(tree, attributes)
        case TravelHeading():
            heading = heading_there(attributes)
            return None if heading is None else heading in tree.headings
        case Presence(attribute=name):
            return name in attributes
        case TimeWindow():
            return any(is_within(tree, one) for one in times_ms) if times_ms else None
        case NumericRange(attribute=name):
            number = number_of(attributes.get(name, ""))
            if number is None:
                return None
            low = tree.at_least if tree.above is None else tree.above
            high = tree.at_most if tree.below is None else tree.below
            is_open = number in (tree.above, tree.below)
            return (low is None or low <= number) and (high is None or number <= high) and not is_open
    if tree.attribute not in attributes:
        return None
    if isinstance(tree, Resemblance):
        confidences = attributes.get("plate_character_confidences", "")
        return any(
            reading_price(
                wanted_vehicle(tree.plate), read, PACKAGED.prices, tree.highest_price,
                confidence_bands(confidences, read),
            ) is not None
            for read in readings(attributes["plate_number"])
        )
    known = values_of(tree.attribute, attributes[tree.attribute])
    if isinstance(tree, OnList):
        is_answered = known and tree.list_id in LISTED
        return any(is_listed(tree.list_id, one) for one in known) if is_answered else None
    return any(_accepts(tree, value) for value in known) if known else None


def _accepts(leaf: Expression, value: str) -> bool:
    match leaf:
        case OneOf(attribute=name, values=values):
            return value in [wanted(name, one) for one in values]
        case Wildcard(attribute=name, pattern=pattern):
            return fnmatchcase(value, wildcard_form(name, pattern).replace("[", "[[]"))
        case Substring(attribute=name, text=text):
            return substring_form(name, text) in value
        case RegularExpression(pattern=pattern):
            return re2.fullmatch(f"(?i:{pattern})", value) is not None
    raise TypeError


@given(st.lists(trees, min_size=1, max_size=6), st.lists(records, max_size=4), moments)
def test_the_index_finds_what_a_plain_reading_of_every_rule_finds(
    references: References,
    written: list[Expression],
    seen: list[dict[str, object]],
    times_ms: list[int],
) -> None:
    """After a journey to an executor; explained in the same way, and gone without a trace."""
    commands = [put(f"r{number}", tree) for number, tree in enumerate(written)]
    rules = pickle.loads(pickle.dumps(compile_rules(commands, references)))
    for list_id in LISTED:
        rules.matcher.drop(f"list/{list_id}")
    for message in seen:
        attributes = attributes_of(KIND, message)
        expected = {
            command.rule_id: plain(tree, attributes, times_ms)
            for command, tree in zip(commands, written, strict=True)
        }
        found = met(rules, times_ms, **message)
        assert found == [rule_id for rule_id, answer in expected.items() if answer]
        for rule_id, tree in zip(expected, written, strict=True):
            assert explain(tree, attributes, times_ms, references)[0].answer is expected[rule_id]
    for command in commands:
        rules.matcher.drop(command.rule_id)
    assert rules.matcher.index == {}


@given(trees)
def test_what_is_said_to_be_served_by_an_index_is_served_by_one(
    references: References, tree: Expression
) -> None:
    """The word of the check, which knows no matcher, and the planner's cells."""
    assert is_indexed(tree) is (cells_of(tree, references) != ANY_RECORD)


@pytest.mark.parametrize(
    ("text", "is_served"),
    [
        ("not vehicle_color = 白色", False), ("speed_kmh > 80", False), ("plate_number is present", False),
        ("during 22:00-06:00", False), ("plate_number like 浙A*", False), ("vehicle_brand contains 众", False),
        ("vehicle_brand matches \"大.*\"", False), ("vehicle_color = 白色 or speed_kmh > 80", False),
        ("plate_number resembles 浙A8D345", True), ("not plate_number resembles 浙A8D345", False),
        ("speed_kmh > 80 and vehicle_color = 白色", True), ("plate_number like 浙A1*", True),
        ("vehicle_brand contains 大众", True), ("vehicle_brand matches \"大众.*\"", True),
        ("heading north", True), ("not heading north", False), ("on road a from b to c", True),
        ("not on road a from b to c", False),
        ("not (speed_kmh > 80 or not vehicle_color = 白色)", True), ("not not vehicle_color = 白色", True),
    ],
)  # fmt: skip
def test_conditions_that_an_index_serves(text: str, is_served: bool) -> None:
    assert is_indexed(parse(text, KIND)) is is_served


def test_of_and_the_rarest_part_is_looked_up() -> None:
    """A plate before a colour, a colour and a brand together before either."""
    tree = parse("vehicle_color = 白 and plate_number like *345 and vehicle_brand contains jeep", KIND)
    [(_, cells, _)] = cells_of(tree)
    assert cells == (("JEEP",),)
    tree = parse("vehicle_color = 白 and plate_number = 浙A12345", KIND)
    [(signature, _, _)] = cells_of(tree)
    assert signature == ("plate_number", "vehicle_color")


def test_of_and_a_plate_that_may_be_misread_is_looked_up_by_its_parts() -> None:
    """It is rarer than a checkpoint, at a high price more frequent; an exact plate is rarer still."""
    tree = parse("checkpoint_id = 7 and plate_number resembles 浙A8D345", KIND)
    assert cells_of(tree) == resembled(tree.parts[1]).index_cells()
    [(signature, _, _)] = cells_of(parse("checkpoint_id = 7 and plate_number resembles 浙A8D345 up to 2", KIND))
    assert signature == ("checkpoint_id",)
    [(signature, _, _)] = cells_of(parse("plate_number = 浙A8D345 and plate_number resembles 浙A8D345", KIND))
    assert signature == ("plate_number",)


def test_a_plate_that_may_be_misread_stands_in_a_tree() -> None:
    """Its price depends on how sure the reader is, so that the record's confidences are read."""
    rules = compile_rules([put_text("plate_number resembles 浙A8X345 and vehicle_color = 白色")])
    assert met(rules, 车牌号码="浙A87345", 车辆颜色="白色") == ["r"]
    assert met(rules, 车牌号码="浙A87345", 车辆颜色="黑色") == []
    named = ("plate_number", "vehicle_color")
    said = ("plate_character_confidences", "plate_candidates")
    assert rules.rules["r"].condition.attributes == (*named, *said)
    sure = ",".join(["99"] * 7)
    assert met(rules, 车牌号码="浙A87345", 车辆颜色="白色", 车牌逐字置信度=sure) == []
    wide = compile_rules([put_text("plate_number resembles 浙A8X345 up to 1.5")])
    assert met(wide, 车牌号码="浙A87345", 车牌逐字置信度=sure) == ["r"]


def test_of_a_plate_that_was_not_read_nothing_is_known_and_of_a_part_something() -> None:
    rules = compile_rules([put_text("plate_number not resembles 浙A8D345")])
    assert met(rules) == met(rules, 车牌号码="无车牌") == met(rules, 车牌号码="浙A80345") == []
    assert met(rules, 车牌号码="浙A8?345") == []
    assert met(rules, 车牌号码="沪B?2345") == ["r"]


def test_a_fuzzy_plate_of_match_and_a_tree_stand_in_one_rule() -> None:
    """Regression: `~` was read as a character of the plate, and the rule met nothing."""
    rules = compile_rules([put_text("speed_kmh > 80", plate_number=["~浙A8D345", "沪B00001", "~浙"])])
    for plate in ("浙A8D345", "浙A80345", "浙A8?345", "沪B00001"):
        assert met(rules, 车牌号码=plate, 车速=81) == ["r"]
        assert met(rules, 车牌号码=plate, 车速=80) == []
    assert met(rules, 车牌号码="沪B0000?", 车速=81) == met(rules, 车牌号码="浙", 车速=81) == []
    none = compile_rules([put_text("speed_kmh > 80", plate_number=["~浙"])])
    assert met(none, 车牌号码="浙", 车速=81) == met(none, 车速=81) == []


@given(st.lists(rules_and_readings(), min_size=1, max_size=6))
def test_match_and_tree_take_the_same_readings_for_a_plate(
    drawn: list[tuple[str, float, str, str]],
) -> None:
    """Of a rule without a tree, of one with a true tree, and of a leaf; none is missed by the index."""
    always = parse("plate_number is present", KIND)
    forms: dict[str, list[WatchCommand]] = {"match": [], "both": [], "leaf": []}
    for number, (plate, price, _, _) in enumerate(drawn):
        match = {"plate_number": [f"~{price}:{plate}"]}
        forms["match"].append(WatchCommand(rule_id=f"r{number}", op="put", version=1, match=match))
        forms["both"].append(put(f"r{number}", always, **match))
        leaf = Resemblance(attribute="plate_number", plate=plate, highest_price=price)
        forms["leaf"].append(put(f"r{number}", leaf))
    rules = {form: compile_rules(commands) for form, commands in forms.items()}
    for _, _, read, confidences in drawn:
        message = {"车牌号码": read, "车牌逐字置信度": confidences}
        expected = met(rules["match"], **message)
        assert met(rules["both"], **message) == met(rules["leaf"], **message) == expected


@given(rules_and_readings())
def test_the_explained_price_is_within_the_limit_where_the_answer_is_yes(
    drawn: tuple[str, float, str, str],
) -> None:
    plate, highest, read, confidences = drawn
    leaf = Resemblance(attribute="plate_number", plate=plate, highest_price=highest)
    message = {"车牌号码": read, "车牌逐字置信度": confidences}
    [found] = explain(leaf, attributes_of(KIND, message), ())
    assert (found.answer or False) is (found.price is not None and found.price <= highest)


def test_what_was_not_read_meets_neither_a_condition_nor_its_negation() -> None:
    rules = compile_rules([put_text("not vehicle_color = 白色")])
    assert met(rules, 车辆颜色="黑色") == ["r"]
    assert met(rules, 车辆颜色="白色") == []
    assert met(rules) == met(rules, 车辆颜色="识别异常") == []
    assert met(compile_rules([put_text("vehicle_color is absent")])) == ["r"]


@pytest.mark.parametrize("condition", ["= 浙A12345", 'like "浙B*123"', "contains 9999", 'matches "浙B.*"'])
def test_a_plate_that_was_read_in_part_meets_neither_a_condition_nor_its_negation(condition: str) -> None:
    """Regression: it may be the very plate that is excepted."""
    rules = compile_rules([put_text(f"not plate_number {condition}")])
    assert met(rules, 车牌号码="浙A1?345") == met(rules, 车牌号码="浙A1#345") == []
    assert met(rules, 车牌号码="浙A12346") == ["r"]


def test_a_rule_with_match_and_tree_asks_for_both() -> None:
    rules = compile_rules([put_text("speed_kmh > 80", plate_number=["浙A12345", "浙B1*"])])
    assert met(rules, 车牌号码="浙A12345", 车速=81) == ["r"]
    assert met(rules, 车牌号码="浙B12345", 车速="８１") == ["r"]
    assert met(rules, 车牌号码="浙A12345", 车速=80) == met(rules, 车速=81) == []


@given(trees, st.lists(records, max_size=4), moments, st.sampled_from(MATCHES))
def test_a_rule_with_both_is_found_and_met_where_both_are(
    references: References,
    tree: Expression,
    seen: list[dict[str, object]],
    times_ms: list[int],
    match: dict[str, list[str]],
) -> None:
    """In whichever form the values are; looked up by the one or by the other."""
    command = put("r", tree, **match)
    rules = pickle.loads(pickle.dumps(compile_rules([command], references)))
    for list_id in LISTED:
        rules.matcher.drop(f"list/{list_id}")
    alone = compile_rules([WatchCommand(rule_id="r", op="put", version=1, match=match)])
    for message in seen:
        attributes = attributes_of(KIND, message)
        both = bool(plain(tree, attributes, times_ms)) and met(alone, times_ms, **message) == ["r"]
        assert met(rules, times_ms, **message) == ["r"] * both
        whole = tree_of(command)
        assert whole is not None
        assert bool(explain(whole, attributes, times_ms, references)[0].answer) is both


def test_a_direction_is_the_records_own_else_that_of_its_lane(references: References) -> None:
    """What it says in words or by the code counts before the register; where neither is known,
    neither a direction nor its negation is met."""
    rules = compile_rules([put("east", parse("heading east", KIND)), put("not", parse("not heading (east)", KIND))],
                          references)  # fmt: skip
    lane_of_west = {"抓拍设备地址": "10.0.0.1", "车道编号": 2}
    assert met(rules, 行驶方向="由西向东", **lane_of_west) == met(rules, 行驶方向=1) == ["east"]
    assert met(rules, **lane_of_west) == met(rules, 行驶方向="9", **lane_of_west) == ["not"]
    assert met(rules, 抓拍设备地址="10.0.0.1", 车道编号="01") == ["east"]
    assert met(rules, 抓拍设备地址="10.0.0.1", 车道编号=7) == met(rules, 行驶方向="9") == []


def test_rules_of_many_directions_and_roads_cost_a_record_its_own_only(references: References) -> None:
    """Whoever passes in the other direction is no candidate of a thousand rules."""
    text = "vehicle_brand = B{number} and heading east"
    rules = compile_rules(
        [put(f"r{n}", parse(text.format(number=n), KIND)) for n in range(1_000)]
        + [put(f"w{n}", parse("on road 中山路 from c1 to c2", KIND)) for n in range(3)],
        references,
    )
    keys = {signature for signature in rules.matcher.index[KIND] if not isinstance(signature[0], PlateOnList)}
    assert keys == {("vehicle_brand",), ("checkpoint_id",), ("camera_ip",)}
    assert met(rules, 车辆品牌="B7", 行驶方向="由西向东") == ["r7"]
    assert met(rules, 车辆品牌="B7", 行驶方向="由东向西") == []
    assert met(rules, 卡口编号="c1", 行驶方向="由西向东") == ["w0", "w1", "w2"]
    assert met(rules, 卡口编号="c1", 行驶方向="由东向西") == []


def test_a_window_is_judged_by_capture_or_arrival() -> None:
    """A camera with a wrong clock hides no car."""
    rules = compile_rules([put_text("during mon 11:00-13:00 and lane_id = 1")])
    hour_ms = 3_600_000
    assert met(rules, (MONDAY_NOON_MS, MONDAY_NOON_MS + 5 * hour_ms), 车道编号="1") == ["r"]
    assert met(rules, (MONDAY_NOON_MS - 5 * hour_ms, MONDAY_NOON_MS), 车道编号="1") == ["r"]
    assert met(rules, (MONDAY_NOON_MS + hour_ms,), 车道编号="1") == met(rules, (), 车道编号="1") == []


def test_a_tree_that_no_check_has_seen_meets_nothing() -> None:
    """It comes from a program of someone else; alarms of other rules go on."""
    trees_of_strangers = [
        RegularExpression(attribute="lane_id", pattern="("),
        Negation(part=TimeWindow()),
        Disjunction(parts=()),
        Presence(attribute="no_such"),
    ]
    rules = compile_rules([put(f"r{n}", tree) for n, tree in enumerate(trees_of_strangers)])
    assert met(rules, (MONDAY_NOON_MS,), 车道编号="(") == []
    assert rules.matcher.index == {}


def test_a_value_longer_than_any_device_reads_was_not_read() -> None:
    rules = compile_rules([put_text("vehicle_brand contains jeep or not vehicle_brand contains jeep")])
    assert met(rules, 车辆品牌="jeep" * 300) == []


def test_the_branch_that_held_is_named() -> None:
    tree = parse("lane_id = 1 and (vehicle_color = 白色 or speed_kmh > 80)", KIND)
    assert true_branch(tree, {"lane_id": "1", "speed_kmh": "90"}, ()) == "speed_kmh > 80"
    assert true_branch(parse("lane_id = 1", KIND), {"lane_id": "1"}, ()) == ""
