"""The watch list: which record matches which rule. Pure; Spark and dispatcher run the same
rules."""

from alarm.rules.fields import attributes_of, normal
from alarm.rules.ruleset import RuleSet, compile_rules
from alarm.rules.verdict import verdict

__all__ = ["RuleSet", "attributes_of", "compile_rules", "normal", "verdict"]
