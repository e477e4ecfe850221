"""What rules in force cost whoever matches them, and how much of it there may be. Pure.

In: commands. Out: their demand; `RuleError` where one more would be too much. Never: a refusal of
what stands on the topic already: these limits are for those who ask for a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import RegularExpression, Resemblance
from bus.domain.expressions.check import check_complete
from bus.domain.expressions.indexing import is_indexed
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.tree import ExpressionError, nodes_of
from bus.domain.rule_check import RuleError

MAX_UNINDEXED_RULES = 100  # in force; each costs every record of its kind some microseconds
MAX_REGULAR_EXPRESSIONS = 500  # in force; each is a program in every worker
UNINDEXED_WARNING = (
    "no index serves this rule: every record is held against it; add a plate, a part of one, or a"
    " value that is asked for"
)


class RuleDemand(NamedTuple):
    """`unindexed`: rules that no index serves, and the plates that these compare with misreadings,
    each as much as a rule; `patterns`: regular expressions."""

    unindexed: int = 0
    patterns: int = 0

    def plus(self, other: RuleDemand) -> RuleDemand:
        """Both."""
        return RuleDemand(self.unindexed + other.unindexed, self.patterns + other.patterns)

    def minus(self, other: RuleDemand) -> RuleDemand:
        """Without the other."""
        return RuleDemand(self.unindexed - other.unindexed, self.patterns - other.patterns)


def demand_of(command: WatchCommand) -> RuleDemand:
    """Of one rule; nothing of one without a tree, or with one that may not be put."""
    if command.op != "put" or command.where is None:
        return RuleDemand()
    try:
        check_complete(command.kind, command.where)
    except ExpressionError:
        return RuleDemand()
    tree = tree_of(command) or command.where
    nodes = [node for node, _ in nodes_of(tree)]
    patterns = sum(isinstance(node, RegularExpression) for node in nodes)
    compared = sum(isinstance(node, Resemblance) for node in nodes)
    return RuleDemand(0 if is_indexed(tree) else 1 + compared, patterns)


def demand_in_force(commands: Iterable[WatchCommand]) -> RuleDemand:
    """Of all of them together."""
    total = RuleDemand()
    for command in commands:
        total = total.plus(demand_of(command))
    return total


def check_demand(command: WatchCommand, others: RuleDemand) -> None:
    """Raises `RuleError` for a rule that is too much beside the `others` in force, of which none
    has its id."""
    own = demand_of(command)
    if own.unindexed and own.unindexed + others.unindexed > MAX_UNINDEXED_RULES:
        raise RuleError(
            "where",
            f"{others.unindexed} rules are in force that no index serves, and there may be"
            f" {MAX_UNINDEXED_RULES}, plates that they compare with misreadings included: add a"
            " plate, a part of one, or a value that is asked for, or remove such a rule",
            "unindexed_rules",
        )
    if own.patterns and own.patterns + others.patterns > MAX_REGULAR_EXPRESSIONS:
        raise RuleError(
            "where",
            f"{others.patterns} regular expressions are in force and there may be"
            f" {MAX_REGULAR_EXPRESSIONS}: write like or contains, or remove rules that have some",
            "regular_expressions",
        )
