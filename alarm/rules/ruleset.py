"""The rules in force, from commands in any order.

In: `WatchCommand`s in any order, the attributes of records. Out: the rules that a record meets
(`Matcher`). Never: I/O, a clock: validity is judged by times that come in; a form of condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from alarm.rules.condition import condition_of
from alarm.rules.matcher import Matcher, Rule
from bus.contracts.commands import WatchCommand
from bus.domain.kinds import WIRE_KEYS
from bus.domain.rule_values import attributes_from


def rule_of(command: WatchCommand) -> Rule:
    """A command as it is matched."""
    return Rule(command, condition_of(command))


@dataclass(slots=True)
class RuleSet:
    """All commands seen, and the rules in force.

    Invariant: `newest` holds per rule id the command with the greatest version, removals included,
    so that the order of arrival does not matter; `matcher` holds exactly the rules of its puts.
    """

    newest: dict[str, WatchCommand] = field(default_factory=dict)
    matcher: Matcher = field(default_factory=Matcher)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Those in force, by id."""
        return self.matcher.rules

    @property
    def names(self) -> Mapping[str, frozenset[str]]:
        """The attributes that rules of a kind read."""
        return self.matcher.names

    def apply(self, command: WatchCommand) -> bool:
        """Take a command; False if a later one for the same rule is already known."""
        known = self.newest.get(command.rule_id)
        if known is not None and _rank(command) <= _rank(known):
            return False
        self.newest[command.rule_id] = command
        if command.op == "put":
            self.matcher.add(rule_of(command))
        else:
            self.matcher.drop(command.rule_id)
        return True

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
        """False if no rule can match at any time; costs only the look-up."""
        return bool(self.matcher.candidates(kind, attributes))

    def __len__(self) -> int:
        return len(self.rules)


def compile_rules(commands: Iterable[WatchCommand]) -> RuleSet:
    """The rules in force after all these commands, in any order."""
    rules = RuleSet()
    for command in commands:
        rules.apply(command)
    return rules


def _rank(command: WatchCommand) -> tuple[int, bool]:
    """Of two commands of one version the removal wins, so that every order ends the same."""
    return command.version, command.op == "remove"
