"""The watch list: which record matches which rule. Pure; Spark and dispatcher run the same
rules."""

from alarm.rules.newest import accepted
from alarm.rules.ruleset import RuleSet, compile_rules
from alarm.rules.verdict import verdict
from bus.domain.rule_values import attributes_of, normal

__all__ = ["RuleSet", "accepted", "attributes_of", "compile_rules", "normal", "verdict"]
