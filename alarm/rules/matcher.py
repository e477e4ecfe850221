"""Which rules a record meets: an index that finds candidates, and the check of each. Pure.

In: rules, the attributes of records. Out: the rules that a record meets, at the same cost for ten
rules and for ten thousand. Never: a form of condition: it knows `RuleCondition` only.

The index: a *signature* is the set of attributes, or parts of a plate, by which a rule can be
found; its *cells* are the combinations of their values. A record looks its own values up once per
signature in use, so that the cost follows the number of different signatures and not the number of
rules. What the index finds is always checked against the whole condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import cast

from alarm.rules.condition import RuleCondition
from alarm.rules.index_cells import ComparisonKey, IndexKey, Signature, Values
from alarm.rules.references import Reference
from bus.contracts.commands import WatchCommand
from bus.domain.rule_values import values_of

Holders = str | set[str]
"""Ids of rules; one by itself, as nearly all are, is less memory to walk through."""
Cells = dict[object, Holders]
"""By the combination of values; of a signature of one key, by its value."""
FEW_COMPARED = 32
"""So many texts are compared with a record's in less time than two dozen of its own are made in."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A command with what it asks of a record."""

    command: WatchCommand
    condition: RuleCondition
    asks_times: bool = False
    """Whether the condition cannot be judged without a record's times."""
    refers_to: frozenset[Reference] = frozenset()

    @property
    def rule_id(self) -> str:
        """The id of the rule."""
        return self.command.rule_id

    def matches(self, kind: str, attributes: Mapping[str, str], times_ms: Iterable[int]) -> bool:
        """Whether a record of that kind, with its capture and arrival times, meets the rule."""
        times_ms = tuple(times_ms)
        if self.command.kind != kind or not self._valid(times_ms):
            return False
        return self.condition.is_met(attributes, times_ms)

    def _valid(self, times_ms: Iterable[int]) -> bool:
        """Either time may lie within: a camera with a wrong clock must not hide a stolen car."""
        begin_ms, end_ms = self.command.valid_from_ms, self.command.valid_until_ms
        if not begin_ms and not end_ms:
            return True
        return any(begin_ms <= time_ms and (not end_ms or time_ms < end_ms) for time_ms in times_ms)


@dataclass(slots=True)
class Matcher:
    """Invariant: `index` and `names` are those of exactly `rules`."""

    rules: dict[str, Rule] = field(default_factory=dict)
    index: dict[str, dict[Signature, Cells]] = field(default_factory=dict)
    """By kind."""
    compared: dict[str, dict[Signature, Counter[str]]] = field(default_factory=dict)
    """By kind, of signatures whose conditions have such texts, how many rules have each."""
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """The attributes that any rule of a kind reads."""
    readers: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind and attribute, how many rules read it."""
    referred: Counter[Reference] = field(default_factory=Counter)
    """How many rules refer to it."""

    def add(self, rule: Rule) -> None:
        """Put it in force, instead of one with its id."""
        self.drop(rule.rule_id)
        self.rules[rule.rule_id] = rule
        self._count_readers(rule, 1)
        kind = rule.command.kind
        for signature, cells, compared in rule.condition.index_cells():
            if not cells:
                continue
            held = self.index.setdefault(kind, {}).setdefault(signature, {})
            for values in cells:
                _hold(held, _cell(values), rule.rule_id)
            self._count_compared(kind, signature, compared, 1)

    def drop(self, rule_id: str) -> None:
        """Take it out of force, if it is."""
        rule = self.rules.pop(rule_id, None)
        if rule is None:
            return
        self._count_readers(rule, -1)
        kind = rule.command.kind
        for signature, cells, compared in rule.condition.index_cells():
            for values in cells:
                _discard(self.index[kind][signature], _cell(values), rule_id)
            if cells:
                self._count_compared(kind, signature, compared, -1)
            if cells and not self.index[kind][signature]:
                del self.index[kind][signature]
        if not self.index.get(kind, True):
            del self.index[kind]

    def candidates(self, kind: str, attributes: Mapping[str, str]) -> set[str]:
        """The ids of rules that such a record may meet: all that it does meet, and hardly more."""
        found: set[str] = set()
        all_compared = self.compared.get(kind, {})
        for signature, cells in self.index.get(kind, {}).items():
            own: Iterable[object]
            if len(signature) != 1:
                own = product(*(_own_values(key, attributes) for key in signature))
            elif isinstance(key := signature[0], str):
                own = values_of(key, attributes.get(key, ""))
            elif _is_far(key, attributes, all_compared.get(signature)):
                continue
            else:
                own = key.of(attributes)
            if isinstance(own, set):  # of two dozen texts hardly one is there: looked up in C
                own = cells.keys() & own
            for cell in own:
                if cell in cells:
                    holders = cells[cell]
                    if isinstance(holders, str):
                        found.add(holders)
                    else:
                        found |= holders
        return found

    def match(
        self, kind: str, attributes: Mapping[str, str], times_ms: Iterable[int] = ()
    ) -> list[Rule]:
        """The rules that a record meets, in the order of their ids."""
        times_ms = tuple(times_ms)
        rules = (self.rules[rule_id] for rule_id in sorted(self.candidates(kind, attributes)))
        return [rule for rule in rules if rule.matches(kind, attributes, times_ms)]

    def _count_compared(
        self, kind: str, signature: Signature, texts: tuple[str, ...], step: int
    ) -> None:
        if not texts:
            return
        counts = self.compared.setdefault(kind, {}).setdefault(signature, Counter())
        for text in texts:
            counts[text] += step
            if not counts[text]:
                del counts[text]
        if not counts:
            del self.compared[kind][signature]

    def _count_readers(self, rule: Rule, step: int) -> None:
        counts = self.readers.setdefault(rule.command.kind, Counter())
        before = len(counts)
        for reference in rule.refers_to:
            self.referred[reference] += step
            if not self.referred[reference]:
                del self.referred[reference]
        for name in rule.condition.attributes:
            counts[name] += step
            if not counts[name]:
                del counts[name]
        if len(counts) != before:
            self.names[rule.command.kind] = frozenset(counts)


def _is_far(
    key: IndexKey, attributes: Mapping[str, str], compared: Counter[str] | None
) -> bool:
    """Whether a few comparisons say that the index has nothing for a record."""
    if not compared or len(compared) > FEW_COMPARED:
        return False
    return not cast(ComparisonKey, key).is_near(attributes, compared.keys())


def _own_values(key: str | IndexKey, attributes: Mapping[str, str]) -> Iterable[object]:
    """Of a record."""
    if isinstance(key, str):
        return values_of(key, attributes.get(key, ""))
    return key.of(attributes)


def _cell(values: Values) -> object:
    return values[0] if len(values) == 1 else values


def _hold(cells: Cells, cell: object, rule_id: str) -> None:
    holders = cells.setdefault(cell, rule_id)
    if isinstance(holders, set):
        holders.add(rule_id)
    elif holders != rule_id:
        cells[cell] = {holders, rule_id}


def _discard(cells: Cells, cell: object, rule_id: str) -> None:
    holders = cells[cell]
    if isinstance(holders, set):
        holders.discard(rule_id)
    if not holders or holders == rule_id:
        del cells[cell]
