"""Which rules of the watch list are of which case, and of whom (pure).

In: rules that are put and taken out. Out: numbers of cases in their order, their rules. Never: a
case of which whoever asks sees no rule; a call whose cost follows the number of rules or cases.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from bus.contracts.commands import WatchCommand
from bus.domain.cases import case_of
from bus.domain.visibility import Viewer, may_see

_Audience = tuple[str, ...]
_LAST_CHARACTER = "\U0010ffff"


class CaseRules:
    """Of one case, those that the same units see. Invariant: `targets` counts the named targets of
    `rules`."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}
        """Id of a rule -> its target; the one that was put last comes last."""
        self.targets: Counter[str] = Counter()

    def put(self, rule_id: str, target: str) -> None:
        """A rule that was not there."""
        self.rules[rule_id] = target
        if target:
            self.targets[target] += 1

    def take_out(self, rule_id: str) -> None:
        """One that may be there."""
        target = self.rules.pop(rule_id, "")
        if target:
            self.targets[target] -= 1
            if not self.targets[target]:
                del self.targets[target]


class CaseIndex:
    """Invariant: by the units that see them, `_cases` has the rules of each case that has any, and
    `_order` the numbers of these cases."""

    def __init__(self) -> None:
        self._cases: dict[_Audience, dict[str, CaseRules]] = {}
        self._order: dict[_Audience, list[str]] = {}

    def put(self, rule: WatchCommand) -> None:
        """A rule that comes into force; one without a case is passed over."""
        case, audience = case_of(rule), _audience(rule)
        if not case:
            return
        cases = self._cases.setdefault(audience, {})
        if case not in cases:
            cases[case] = CaseRules()
            insort(self._order.setdefault(audience, []), case)
        cases[case].put(rule.rule_id, rule.target)

    def take_out(self, rule: WatchCommand) -> None:
        """The same rule, which ends."""
        case, audience = case_of(rule), _audience(rule)
        found = self._cases.get(audience, {}).get(case)
        if found is None:
            return
        found.take_out(rule.rule_id)
        if found.rules:
            return
        order = self._order[audience]
        del self._cases[audience][case], order[bisect_left(order, case)]
        if not order:
            del self._cases[audience], self._order[audience]

    def numbers(self, viewer: Viewer, begins: str, after: str) -> Iterator[str]:
        """Of cases with a rule that `viewer` sees, which begin so and stand behind `after`; a
        number may come several times."""
        return merge(*(
            _between(order, begins, after)
            for audience, order in self._order.items() if may_see(viewer, audience)
        ))  # fmt: skip

    def of(self, viewer: Viewer, case: str) -> list[CaseRules]:
        """What `viewer` sees of a case."""
        return [
            cases[case] for audience, cases in self._cases.items()
            if case in cases and may_see(viewer, audience)
        ]


def _audience(rule: WatchCommand) -> _Audience:
    return tuple(sorted(rule.visible_to))


def _between(order: list[str], begins: str, after: str) -> Iterator[str]:
    first = max(bisect_left(order, begins), bisect_right(order, after) if after else 0)
    end = bisect_right(order, begins + _LAST_CHARACTER) if begins else len(order)
    return islice(order, first, end)
