"""Cases are what rules in force and proposals say of themselves, as far as somebody sees these."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.visibility import EVERYTHING, Viewer, may_see
from monitor.live import visible_cases
from monitor.live.live_state import LiveState
from monitor.live.visible_cases import CaseSummary
from monitor.live.visible_live import VisibleLive

NOW = 1_800_000_000_000
VIEWERS = [Viewer(""), Viewer("a"), Viewer("b"), EVERYTHING]
CASES = ["", "K-1", "K-10", "K-2", " K-2 ", "案", "案7"]
UNITS: list[list[str]] = [[], ["a"], ["b"], ["b", "a"]]
RULES = st.lists(
    st.builds(
        DecidedRule, rule_id=st.sampled_from([f"r{n}" for n in range(12)]), op=st.sampled_from(["put", "put", "remove"]),
        version=st.integers(1, 9), valid_until_ms=st.sampled_from([0, NOW - 1, NOW + 1]), case=st.sampled_from(CASES),
        target=st.sampled_from(["", "driver", "wife"]), visible_to=st.sampled_from(UNITS),
    ),
    max_size=30, unique_by=lambda rule: (rule.rule_id, rule.version),
)  # fmt: skip
TEXTS = st.builds(
    WatchCommand, rule_id=st.sampled_from([f"p{n}" for n in range(4)]), op=st.just("put"), version=st.just(1),
    case=st.sampled_from(CASES), target=st.sampled_from(["", "driver", "friend"]), visible_to=st.sampled_from(UNITS),
)  # fmt: skip


def live_of(rules: Iterable[DecidedRule], texts: Iterable[WatchCommand] = ()) -> LiveState:
    live = LiveState(rows=1)
    for rule in rules:
        live.on_command(rule.rule_id, rule)
    for number, text in enumerate(texts, 1):
        live.on_beside_rules(WatchProposal(
            rule_id=text.rule_id, version=number, text=text, decided_at_ms=NOW, command_id="c",
        ))  # fmt: skip
    return live


def pages(seen: VisibleLive, limit: int, begins: str) -> list[CaseSummary]:
    found: list[CaseSummary] = []
    cursor = ""
    while True:
        page = seen.case_page(NOW, limit=limit, begins=begins, cursor=cursor)
        found += page.cases
        cursor = page.cursor
        assert cursor in ("", *(f"behind:{one.case}" for one in found)), "a cursor names what was shown"
        if not cursor:
            return found


@given(RULES, st.lists(TEXTS, max_size=5), st.integers(1, 3), st.sampled_from(["", "K", "K-1", "案", "Z"]))
def test_every_case_is_there_once_with_its_targets_and_nothing_of_what_is_hidden(
    rules: list[DecidedRule], texts: list[WatchCommand], limit: int, begins: str
) -> None:
    """In any order of decisions, rules that ended or moved to another case among them; a plain loop agrees."""
    live = live_of(rules, texts)
    newest = {rule.rule_id: rule for rule in sorted(rules, key=lambda one: one.version)}
    waiting = {text.rule_id: text for text in texts}
    for viewer in VIEWERS:
        in_force = [
            rule for rule in newest.values()
            if rule.op == "put" and rule.valid_until_ms != NOW - 1 and may_see(viewer, rule.visible_to)
        ]  # fmt: skip
        proposed = [text for text in waiting.values() if may_see(viewer, text.visible_to)]
        wanted = {}
        for one in [*in_force, *proposed]:
            case = one.case.strip()
            if case and case.startswith(begins):
                wanted.setdefault(case, []).append(one)
        seen = VisibleLive(live, viewer)
        found = pages(seen, limit, begins)
        assert [one.case for one in found] == sorted(wanted)
        for one in found:
            members = wanted[one.case]
            assert one.targets == sorted({rule.target for rule in members if rule.target})
            assert one.rules + one.waiting == len(members)
            opened = seen.case(one.case, NOW)
            assert {rule.rule_id for target in opened.targets for rule in target.rules} == {
                rule.rule_id for rule in in_force if rule.case.strip() == one.case
            }
            assert all(
                {target.name} == {rule.target for rule in target.rules} | {text.text.target for text in target.waiting}
                for target in opened.targets
            )
            names = [target.name for target in opened.targets]
            assert names == sorted(filter(None, names)) + [""] * ("" in names)
        hidden = {rule.case.strip() for rule in rules} - set(wanted)
        assert all(not seen.case(case, NOW).targets for case in hidden if not begins)


def test_of_a_case_with_very_many_rules_the_newest_are_shown_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visible_cases, "MAX_RULES", 3)
    rules = [DecidedRule(rule_id=f"r{n}", op="put", version=n, case="K-1", target="driver") for n in range(1, 6)]
    seen = VisibleLive(live_of(rules), EVERYTHING)
    found = seen.case("K-1", NOW)
    assert [one.rule_id for one in found.targets[0].rules] == ["r5", "r4", "r3"]
    assert found.more_rules == 2
    assert seen.case_page(NOW, limit=1).cases == [CaseSummary(case="K-1", targets=["driver"], rules=5, waiting=0)]


def test_a_change_that_waits_stands_beside_the_rule_that_it_changes() -> None:
    """Under the target that it names, which may be another one."""
    rule = DecidedRule(rule_id="r", op="put", version=1, case="K-1", target="driver")
    text = msgspec.structs.replace(
        WatchCommand(rule_id="r", op="put", version=1), case="K-1", target="wife", severity="critical"
    )
    found = VisibleLive(live_of([rule], [text]), EVERYTHING).case("K-1", NOW)
    assert [(one.name, len(one.rules), len(one.waiting)) for one in found.targets] == [("driver", 1, 0), ("wife", 0, 1)]
