"""The cases that one person sees: a case is derived from the rules that name it. Pure.

In: the rules in force and what is proposed, who looks. Out: numbers of cases, page by page; of one
its targets, each with its rules. Never: a number, target or count of what he does not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import groupby, islice

import msgspec

from bus.contracts.proposals import WatchProposal
from bus.domain.cases import CaseTarget, by_case, targets_of_case
from bus.domain.rule_check import is_over
from bus.domain.visibility import Viewer
from monitor.live.case_index import CaseIndex
from monitor.live.rule_table import RuleTable

_BEHIND = "behind:"
"""A cursor begins so; the number of the last case that was shown follows."""
MAX_RULES = 200
"""Of one case that is shown, those put last; a longer list is read on the page of rules."""


class CaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`targets`: their names, in order. `rules`: in force; some that have just ended may still be
    counted. `waiting`: proposals of new rules and of changes."""

    case: str
    targets: list[str]
    rules: int
    waiting: int


class CasePage(msgspec.Struct, frozen=True):
    """Cases by their number; `cursor` is empty where no more follow."""

    cases: list[CaseSummary]
    cursor: str


class OpenCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case; `more_rules`: how many further ones are in force."""

    targets: list[CaseTarget]
    more_rules: int


def case_page(
    index: CaseIndex, waiting: Sequence[WatchProposal], viewer: Viewer, *,
    limit: int, begins: str = "", cursor: str = "",
) -> CasePage:  # fmt: skip
    """`waiting`: what he sees of what is proposed; `begins`: how numbers begin. Raises `ValueError`
    for a cursor that is none of this list."""
    if cursor and not cursor.startswith(_BEHIND):
        raise ValueError("none of this list")
    after = cursor.removeprefix(_BEHIND)
    proposed = {case: own.waiting for case, own in by_case((), waiting).items()}
    further = sorted(case for case in proposed if case.startswith(begins) and case > after)
    every = merge(index.numbers(viewer, begins, after), further)
    found = [case for case, _ in islice(groupby(every), limit + 1)]
    cases = [_summary(case, index, proposed.get(case, ()), viewer) for case in found[:limit]]
    return CasePage(cases, f"{_BEHIND}{cases[-1].case}" if len(found) > limit else "")


def _summary(
    case: str, index: CaseIndex, waiting: Sequence[WatchProposal], viewer: Viewer
) -> CaseSummary:
    """`waiting`: of this case."""
    parts = index.of(viewer, case)
    targets = {name for part in parts for name in part.targets}
    targets |= {one.text.target for one in waiting if one.text.target}
    rules = sum(len(part.rules) for part in parts)
    return CaseSummary(case=case, targets=sorted(targets), rules=rules, waiting=len(waiting))


def open_case(
    index: CaseIndex, rules: RuleTable, waiting: Sequence[WatchProposal], viewer: Viewer,
    case: str, now_ms: int,
) -> OpenCase:  # fmt: skip
    """Its targets by name, those that name nobody last; without any where he sees nothing of it."""
    parts = index.of(viewer, case)
    ids = [rule_id for part in parts for rule_id in reversed(part.rules)]
    known = (rules.get(rule_id) for rule_id in ids[:MAX_RULES])
    in_force = [one for one in known if one is not None and not is_over(one, now_ms)]
    proposed = by_case((), waiting).get(case)
    targets = targets_of_case(in_force, proposed.waiting if proposed is not None else ())
    return OpenCase(targets=targets, more_rules=max(0, len(ids) - MAX_RULES))
