"""The rules in force, indexed so that a record costs the same for ten rules and for ten thousand.

In: `WatchCommand`s in any order, the attributes of records. Out: the rules that a record meets.
Never: I/O, a clock: validity is judged by times that come in.

The index: a rule's *signature* is the set of attributes it names; its *cells* are the combinations
of their accepted values. A record looks its own values up once per signature in use, so that the
cost follows the number of different signatures and not the number of rules. A rule with more than
`MAX_CELLS` combinations is indexed by fewer attributes, and what the index finds is always checked
against the whole rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from bus.contracts.commands import WatchCommand
from bus.domain.kinds import WIRE_KEYS
from bus.domain.rule_values import attributes_from, values_of, wanted

MAX_CELLS = 64  # memory per rule; 10,000 rules stay below a million cells

Signature = tuple[str, ...]
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A command with its values in comparable form."""

    command: WatchCommand
    accepted: Mapping[str, frozenset[str]]

    @property
    def rule_id(self) -> str:
        """The id of the rule."""
        return self.command.rule_id

    def matches(self, kind: str, attributes: Mapping[str, str], times_ms: Iterable[int]) -> bool:
        """Whether a record of that kind, with its capture and arrival times, meets the rule."""
        if self.command.kind != kind or not self.accepted or not self._valid(times_ms):
            return False
        return all(
            not values.isdisjoint(values_of(name, attributes.get(name, "")))
            for name, values in self.accepted.items()
        )

    def _valid(self, times_ms: Iterable[int]) -> bool:
        """Either time may lie within: a camera with a wrong clock must not hide a stolen car."""
        begin_ms, end_ms = self.command.valid_from_ms, self.command.valid_until_ms
        if not begin_ms and not end_ms:
            return True
        return any(begin_ms <= time_ms and (not end_ms or time_ms < end_ms) for time_ms in times_ms)


def rule_of(command: WatchCommand) -> Rule:
    """Bring the values of a command into comparable form; unread values are dropped."""
    accepted = {
        name: frozenset(filter(None, (wanted(name, value) for value in values)))
        for name, values in command.match.items()
    }
    return Rule(command, accepted)


@dataclass(slots=True)
class RuleSet:
    """All commands seen, and an index over the rules in force.

    Invariant: `newest` holds per rule id the command with the greatest version, removals included,
    so that the order of arrival does not matter; `index` holds exactly the rules of its puts.
    """

    newest: dict[str, WatchCommand] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    index: dict[tuple[str, Signature], dict[Values, set[str]]] = field(default_factory=dict)
    indexed_fields: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # (kind, attribute) -> rules
    names: dict[str, frozenset[str]] = field(default_factory=dict)  # the same, by kind

    def apply(self, command: WatchCommand) -> bool:
        """Take a command; False if a later one for the same rule is already known."""
        known = self.newest.get(command.rule_id)
        if known is not None and _rank(command) <= _rank(known):
            return False
        self.newest[command.rule_id] = command
        self._drop(command.rule_id)
        if command.op == "put":
            self._add(rule_of(command))
        return True

    def match(
        self, kind: str, attributes: Mapping[str, str], times_ms: Iterable[int] = ()
    ) -> list[Rule]:
        """The rules that a record meets, in the order of their ids."""
        times_ms = tuple(times_ms)
        rules = (self.rules[rule_id] for rule_id in sorted(self._found(kind, attributes)))
        return [rule for rule in rules if rule.matches(kind, attributes, times_ms)]

    def attributes(self, kind: str, message: Mapping[str, object]) -> dict[str, str]:
        """The attributes of a message that any rule of its kind asks for."""
        wanted, keys = self.names.get(kind, frozenset()), WIRE_KEYS.get(kind, {})
        return attributes_from((n, message.get(keys[n])) for n in wanted if n in keys)

    def may_match(self, kind: str, attributes: Mapping[str, str]) -> bool:
        """False if no rule can match at any time; costs only the look-up."""
        return bool(self._found(kind, attributes))

    def _found(self, kind: str, attributes: Mapping[str, str]) -> set[str]:
        found: set[str] = set()
        for (rule_kind, signature), cells in self.index.items():
            if rule_kind == kind:
                own = (values_of(name, attributes.get(name, "")) for name in signature)
                for values in product(*own):
                    found |= cells.get(values, frozenset())
        return found

    def __len__(self) -> int:
        return len(self.rules)

    def _add(self, rule: Rule) -> None:
        self.rules[rule.rule_id] = rule
        self._count_fields(rule, 1)
        place, cells = _cells(rule)
        for values in cells:
            self.index.setdefault(place, {}).setdefault(values, set()).add(rule.rule_id)

    def _count_fields(self, rule: Rule, step: int) -> None:
        kind, before = rule.command.kind, len(self.indexed_fields)
        for name in rule.accepted:
            self.indexed_fields[kind, name] += step
            if not self.indexed_fields[kind, name]:
                del self.indexed_fields[kind, name]
        if len(self.indexed_fields) != before:
            self.names[kind] = frozenset(name for of, name in self.indexed_fields if of == kind)

    def _drop(self, rule_id: str) -> None:
        rule = self.rules.pop(rule_id, None)
        if rule is None:
            return
        self._count_fields(rule, -1)
        place, cells = _cells(rule)
        for values in cells:
            holders = self.index[place][values]
            holders.discard(rule_id)
            if not holders:
                del self.index[place][values]
        if not self.index.get(place, True):
            del self.index[place]


def compile_rules(commands: Iterable[WatchCommand]) -> RuleSet:
    """The rules in force after all these commands, in any order."""
    rules = RuleSet()
    for command in commands:
        rules.apply(command)
    return rules


def _rank(command: WatchCommand) -> tuple[int, bool]:
    """Of two commands of one version the removal wins, so that every order ends the same."""
    return command.version, command.op == "remove"


def _cells(rule: Rule) -> tuple[tuple[str, Signature], list[Values]]:
    """Where a rule stands in the index; a rule that accepts nothing stands nowhere."""
    names: list[str] = []
    size = 1
    for name, values in sorted(rule.accepted.items(), key=lambda item: (len(item[1]), item[0])):
        if size * len(values) <= MAX_CELLS or not names:
            names.append(name)
            size *= len(values)
    names.sort()
    cells = list(product(*(sorted(rule.accepted[name]) for name in names))) if names else []
    return (rule.command.kind, tuple(names)), cells
