"""The rules in force, from commands in any order.

In: `WatchCommand`s in any order, the attributes of records. Out: the rules that a record meets
(`Matcher`). Never: I/O, a clock: validity is judged by times that come in; a form of condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from alarm.rules.condition import condition_of
from alarm.rules.matcher import Matcher, Rule
from alarm.rules.newest import accepted
from alarm.rules.plate_lists import rule_of_list
from alarm.rules.references import NO_REFERENCES, Reference, References, references_of_rule
from alarm.rules.uncompared_faces import uncompared_faces
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import TimeWindow
from bus.contracts.plate_lists import LIST_RULE
from bus.domain.expressions.tree import nodes_of
from bus.domain.kinds import WIRE_KEYS
from bus.domain.rule_values import FEATURE, attributes_from
from bus.domain.table_versions import TableVersions


def rule_of(command: WatchCommand, references: References = NO_REFERENCES) -> Rule:
    """A command as it is matched."""
    nodes = nodes_of(command.where) if command.where is not None else ()
    asks_times = any(isinstance(node, TimeWindow) for node, _ in nodes)
    condition = condition_of(command, references)
    return Rule(command, condition, asks_times, references_of_rule(command))


@dataclass(slots=True)
class RuleSet:
    """What is known of all rules, and those in force.

    Invariant: `versions` has the greatest version of each rule id, removals included, so that the
    order of arrival does not matter; `matcher` holds exactly the rules of which that is a put, and
    one for each list in `references` that is a rule itself.
    """

    versions: TableVersions = field(default_factory=TableVersions)
    matcher: Matcher = field(default_factory=Matcher)
    references: References = NO_REFERENCES

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Those in force, by id."""
        return self.matcher.rules

    @property
    def names(self) -> Mapping[str, frozenset[str]]:
        """The attributes that rules of a kind read."""
        return self.matcher.names

    def apply(self, command: WatchCommand) -> bool:
        """Take a command; False if it changes no rule: a later one is known, or this one, or it is
        too old."""
        known = self.rules.get(command.rule_id)
        if not accepted(command, self.versions) or (known and known.command == command):
            return False
        if command.op == "put":
            self.matcher.add(rule_of(command, self.references))
        else:
            self.matcher.drop(command.rule_id)
        return True

    def forget(self, rule_id: str) -> bool:
        """A tombstone; whether a rule was in force that is not any more."""
        if not self.versions.forget(rule_id) or rule_id not in self.rules:
            return False
        self.matcher.drop(rule_id)
        return True

    def refer_to(self, references: References) -> bool:
        """From now on rules are matched with these; whether anything of it is another. Only rules
        that refer to what changed are compiled again."""
        changed = references.changed_since(self.references)
        self.references = references
        if not changed:
            return False
        for rule in [one for one in self.rules.values() if one.refers_to & changed]:
            self.matcher.add(rule_of(rule.command, references))
        for reference in changed:
            if reference.what == "list":
                self._apply_list(reference.id)
        return True

    def _apply_list(self, list_id: str) -> None:
        """A list is a rule itself, unless its record says that rules refer to it only."""
        found = self.references.find(list_id)
        if found is None or not found.record.alarms:
            self.matcher.drop(f"{LIST_RULE}{list_id}")
        else:
            self.matcher.add(rule_of(rule_of_list(found.record), self.references))

    def match(
        self, kind: str, attributes: Mapping[str, str], times_ms: Iterable[int] = ()
    ) -> list[Rule]:
        """The rules that a record meets, in the order of their ids."""
        return self.matcher.match(kind, attributes, times_ms)

    def attributes(self, kind: str, message: Mapping[str, object]) -> dict[str, str]:
        """The attributes of a message that any rule of its kind asks for."""
        wanted, keys = self.names.get(kind, frozenset()), WIRE_KEYS.get(kind, {})
        return attributes_from((n, message.get(keys[n])) for n in wanted if n in keys)

    def may_match(self, kind: str, attributes: Mapping[str, str]) -> bool:
        """False if no rule can match at any time: then a record need not be normalised."""
        found = (self.rules[one] for one in self.matcher.candidates(kind, attributes))
        return any(rule.asks_times or rule.condition.is_met(attributes) for rule in found)

    def prepare(self, kind: str, records: Sequence[Mapping[str, str]]) -> Counter[str]:
        """Answer what a batch of records will be asked together; `match` is right without it. How
        many of them no gallery can be compared with, by reason (`uncompared_faces`)."""
        if FEATURE not in self.names.get(kind, ()):
            return Counter()
        galleries = [
            one for one in self.references.galleries.values()
            if Reference("list", one.list_id) in self.matcher.referred
        ]  # fmt: skip
        for gallery in galleries:
            gallery.prepare(records)
        return uncompared_faces(galleries, records)

    def __len__(self) -> int:
        return len(self.rules)


def compile_rules(
    commands: Iterable[WatchCommand], references: References = NO_REFERENCES
) -> RuleSet:
    """The rules in force after all these commands, in any order, and those of lists."""
    rules = RuleSet()
    rules.refer_to(references)
    for command in commands:
        rules.apply(command)
    return rules
