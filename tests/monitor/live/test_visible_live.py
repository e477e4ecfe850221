"""The live state as one person may see it, and that pages and routes have no other way to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from console_city import alarms
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.alarm_states import AlarmState
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.visibility import EVERYTHING, Viewer, may_see
from deploy.paths import PROJECT_ROOT
from monitor.live.live_state import ALARM_LIT_MS, MAX_AUDIENCES, LiveState
from monitor.live.rule_table import RuleTable
from monitor.live.visible_live import VisibleLive

NOW = 1_800_000_000_000
UNITS = ("", "a", "b", "*")
VIEWERS = [Viewer(unit) for unit in UNITS]
GUARDED = {"rules", "proposals", "alarms", "digests", "trajectory", "checkpoint_state", "alarm"}
"""Of `LiveState`: what only some may see."""
[ALARM, *_] = alarms(NOW)
RULES = st.lists(
    st.builds(
        DecidedRule, rule_id=st.sampled_from([f"r{n}" for n in range(12)]), op=st.sampled_from(["put", "remove"]),
        version=st.integers(1, 6), valid_until_ms=st.sampled_from([0, NOW - 1, NOW + 1]),
        visible_to=st.sampled_from([[], ["a"], ["b"], ["a", "b"]]),
    ),
    max_size=25, unique_by=lambda rule: (rule.rule_id, rule.version),
)  # fmt: skip


@given(RULES, st.integers(1, 4))
def test_pages_have_every_rule_that_is_seen_once_and_no_cursor_names_a_hidden_one(
    rules: list[DecidedRule], limit: int
) -> None:
    """However many hidden ones stand between; the count says as many."""
    table = RuleTable()
    for rule in rules:
        table.apply(rule)
    newest: dict[str, DecidedRule] = {}
    for rule in sorted(rules, key=lambda rule: rule.version):
        newest[rule.rule_id] = rule
    for viewer in VIEWERS:
        wanted = {
            rule.rule_id for rule in newest.values()
            if rule.op == "put" and rule.valid_until_ms != NOW - 1 and may_see(viewer, rule.visible_to)
        }  # fmt: skip
        found, cursor = [], ""
        while True:
            page = table.page(NOW, limit=limit, viewer=viewer, cursor=cursor)
            found += [rule.rule_id for rule in page.rules]
            cursor = page.cursor
            hidden = {one for one in newest if one not in wanted and newest[one].visible_to}
            assert not any(cursor.endswith(f":{one}") for one in hidden if not may_see(viewer, newest[one].visible_to))
            if not cursor:
                break
        assert sorted(found) == sorted(wanted)
        assert table.count(NOW, viewer) == len(wanted)


@pytest.mark.parametrize("cursor", ["1:~", "1:~x", "1:~-1", "1:~1.0", "1:~99999999999"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="none of this list"):
        RuleTable().page(NOW, limit=1, viewer=EVERYTHING, cursor=cursor)


def test_alarms_states_and_lit_checkpoints_are_those_that_are_seen() -> None:
    live = LiveState(rows=1)
    hidden = msgspec.structs.replace(
        ALARM, alarm_id="r:1", rule_id="r", checkpoint_id="c", raised_at_ms=NOW, visible_to=["a"]
    )
    common = msgspec.structs.replace(hidden, alarm_id="s:1", rule_id="s", checkpoint_id="d", visible_to=[])
    for alarm in (hidden, common):
        live.on_alarm(alarm)
        live.on_alarm_state(AlarmState(alarm_id=alarm.alarm_id, stage="taken", epoch=0, n=1))
    delta = live.delta(NOW)
    for viewer in VIEWERS:
        seen, is_seen = VisibleLive(live, viewer), viewer.unit in ("a", "*")
        shown = {"r:1", "s:1"} if is_seen else {"s:1"}
        assert {one.alarm_id for one in seen.alarms} == shown
        assert {one.alarm_id for one in seen.visible_delta(delta).alarms} == shown
        assert {one.alarm_id for one in seen.visible_delta(delta).alarm_states} == shown
        assert (seen.alarm("r:1") is not None, seen.is_known_hidden("r:1")) == (is_seen, not is_seen)
        assert bool(seen.trajectory("r")) == is_seen
        assert (seen.checkpoint_state("c", NOW, 1) == "alarm") == is_seen
        assert seen.checkpoint_state("d", NOW + ALARM_LIT_MS - 1, 1) == "alarm"


def test_digests_and_numbers_of_alarms_are_those_that_are_seen() -> None:
    """A rule whose units change within a minute has one digest for each of its audiences."""
    live = LiveState(rows=1, alarms_a_minute=2)
    for number in range(10):
        units = ["a"] if number % 2 else []
        live.on_alarm(msgspec.structs.replace(
            ALARM, alarm_id=f"r:{number}", rule_id="r", raised_at_ms=NOW, visible_to=units, district_id="d"
        ))  # fmt: skip
    delta = live.delta(NOW)
    for viewer in VIEWERS:
        seen, is_seen = VisibleLive(live, viewer), viewer.unit in ("a", "*")
        shown = {((), 3), (("a",), 3)} if is_seen else {((), 3)}
        assert {(one.visible_to, one.count) for one in seen.digests} == shown
        assert {(one.visible_to, one.count) for one in seen.visible_delta(delta).digests} == shown
        assert seen.alarms_since(NOW - 60_000) == seen.hits()["r"] == (10 if is_seen else 5)
        assert seen.alarms_since(NOW + 60_000) == 0


def test_the_memory_of_lit_checkpoints_is_bounded_whatever_units_rules_name() -> None:
    live = LiveState(rows=1)
    for number in range(MAX_AUDIENCES + 1):
        live.on_alarm(msgspec.structs.replace(
            ALARM, alarm_id=f"r:{number}", checkpoint_id=f"c{number}", raised_at_ms=NOW, visible_to=[str(number)]
        ))  # fmt: skip
    states = [live.checkpoint_state(f"c{n}", NOW, 1, EVERYTHING) for n in (0, 1, MAX_AUDIENCES)]
    assert states == ["unknown", "alarm", "alarm"]


def test_a_rule_that_has_ended_stays_hidden_and_so_do_its_alarms_by_their_ids() -> None:
    """While the store is away only the rule says it."""
    live = LiveState(rows=1)
    live.on_command("r", DecidedRule(rule_id="r", op="remove", version=2, visible_to=["a"]))
    assert VisibleLive(live, Viewer("b")).rule("r") is None
    assert VisibleLive(live, Viewer("a")).rule("r") is not None
    assert VisibleLive(live, Viewer("b")).is_known_hidden("r:20260101:17")
    assert not VisibleLive(live, Viewer("b")).is_known_hidden("q:1")


def test_a_change_that_opens_a_hidden_rule_is_not_shown_before_it_is_approved() -> None:
    live = LiveState(rows=1)
    live.on_command("r", DecidedRule(rule_id="r", op="put", version=2, visible_to=["a"]))
    for rule_id, units in (("r", []), ("s", ["b"]), ("t", [])):
        text = WatchCommand(rule_id=rule_id, op="put", version=3, visible_to=list(units))
        live.on_beside_rules(
            WatchProposal(rule_id=rule_id, version=3, text=text, decided_at_ms=3, command_id="c")
        )
    waiting = {
        viewer.unit: {one.rule_id for one in VisibleLive(live, viewer).waiting()} for viewer in VIEWERS
    }  # fmt: skip
    assert waiting == {"": {"t"}, "a": {"r", "t"}, "b": {"s", "t"}, "*": {"r", "s", "t"}}


def ways_around(path: Path) -> Iterator[str]:
    """Where code takes guarded things from `hub.live`, or from a name that is it."""
    tree = ast.parse(path.read_text())
    names = {
        target.id
        for node in ast.walk(tree) if isinstance(node, ast.Assign) and ends_in_live(node.value)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in GUARDED:
            of_name = isinstance(node.value, ast.Name) and node.value.id in names
            if of_name or ends_in_live(node.value):
                yield f"{path.name}:{node.lineno} {node.attr}"


def ends_in_live(node: ast.expr) -> bool:
    is_live = isinstance(node, ast.Attribute) and node.attr == "live"
    return is_live and isinstance(node.value, ast.Attribute) and node.value.attr == "hub"  # type: ignore[attr-defined]


def test_pages_and_routes_reach_rules_proposals_and_alarms_as_who_looks(tmp_path: Path) -> None:
    """`services.hub.live` has them all; `VisibleLive` those that a person may see."""
    found = [
        way for package in ("api", "console") for path in (PROJECT_ROOT / "monitor" / package).rglob("*.py")
        for way in ways_around(path)
    ]  # fmt: skip
    assert found == []
    bad = tmp_path / "bad.py"
    bad.write_text("a = services.hub.live\nprint(a.alarms, view.services.hub.live.rules.get('r'), a.rates)\n")
    assert len(list(ways_around(bad))) == 2
