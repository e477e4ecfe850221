"""Cases and their targets: what rules say of themselves. Pure.

In: rules in force, proposals. Out: the case of a rule; of a case's rules the targets. Never: a case
that no rule names: it is nothing of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bus.contracts.commands import WatchCommand
from bus.contracts.proposals import WatchProposal


class CaseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a case is about. `name`: empty for rules that name nobody. `rules` are in force,
    `waiting` waits for an approval."""

    name: str
    rules: list[WatchCommand]
    waiting: list[WatchProposal]


class RulesOfCase(NamedTuple):
    """Those of one case that are in force, and that wait."""

    in_force: list[WatchCommand]
    waiting: list[WatchProposal]


def case_of(rule: WatchCommand) -> str:
    """The number under which it was put; empty: none."""
    return rule.case.strip()


def by_case(
    rules: Iterable[WatchCommand], waiting: Iterable[WatchProposal]
) -> dict[str, RulesOfCase]:
    """Of those that name a case."""
    found: dict[str, RulesOfCase] = defaultdict(lambda: RulesOfCase([], []))
    for rule in rules:
        found[case_of(rule)].in_force.append(rule)
    for one in waiting:
        found[case_of(one.text)].waiting.append(one)
    found.pop("", None)
    return dict(found)


def targets_of_case(
    rules: Sequence[WatchCommand], waiting: Sequence[WatchProposal]
) -> list[CaseTarget]:
    """Of the rules and proposals of one case; by name, those that name nobody last."""
    names = {one.target for one in rules} | {one.text.target for one in waiting}
    return [
        CaseTarget(
            name=name,
            rules=[one for one in rules if one.target == name],
            waiting=[one for one in waiting if one.text.target == name],
        )
        for name in sorted(names, key=lambda name: (not name, name))
    ]  # fmt: skip
