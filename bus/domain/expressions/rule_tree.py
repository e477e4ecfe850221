"""A rule's whole condition as one tree: what it accepts by attribute, and its `where`. Pure."""

from __future__ import annotations

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Conjunction, Disjunction, Expression, OneOf, Wildcard
from bus.domain.plate_patterns import is_pattern
from bus.domain.rule_values import PLATE


def tree_of(command: WatchCommand) -> Expression | None:
    """None for a rule that asks for nothing."""
    parts = [_of_values(name, values) for name, values in command.match.items()]
    if command.where is not None:
        parts.append(command.where)
    return _joined(Conjunction, parts)


def _of_values(attribute: str, values: list[str]) -> Expression:
    patterns = [value for value in values if attribute == PLATE and is_pattern(value)]
    whole = tuple(value for value in values if value not in patterns)
    parts: list[Expression] = [Wildcard(attribute=attribute, pattern=one) for one in patterns]
    if whole or not parts:
        parts.insert(0, OneOf(attribute=attribute, values=whole))
    return _joined(Disjunction, parts) or parts[0]


def _joined(
    form: type[Conjunction | Disjunction], parts: list[Expression]
) -> Expression | None:
    if len(parts) > 1:
        return form(parts=tuple(parts))
    return parts[0] if parts else None
