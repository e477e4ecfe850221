"""A rule's whole condition as one tree: what it accepts by attribute, and its `where`. Pure."""

from __future__ import annotations

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import (
    Conjunction,
    Disjunction,
    Expression,
    OneOf,
    Resemblance,
    Wildcard,
)
from bus.domain.fuzzy_plate import fuzzy_plate, is_fuzzy
from bus.domain.plate_patterns import is_pattern
from bus.domain.rule_values import PLATE


def tree_of(command: WatchCommand) -> Expression | None:
    """None for a rule that asks for nothing."""
    parts = [_of_values(name, values) for name, values in command.match.items()]
    if command.where is not None:
        parts.append(command.where)
    return _joined(Conjunction, parts)


def _of_values(attribute: str, values: list[str]) -> Expression:
    if attribute == PLATE:
        return _of_plates(values)
    return OneOf(attribute=attribute, values=tuple(values))


def _of_plates(written: list[str]) -> Expression:
    """A fuzzy one that cannot be meant is met by no record."""
    fuzzy = filter(None, map(fuzzy_plate, filter(is_fuzzy, written)))
    others = [plate for plate in written if not is_fuzzy(plate)]
    whole = tuple(plate for plate in others if not is_pattern(plate))
    parts: list[Expression] = [
        *(Wildcard(attribute=PLATE, pattern=one) for one in filter(is_pattern, others)),
        *(Resemblance(attribute=PLATE, plate=one, highest_price=price) for one, price in fuzzy),
    ]
    if whole or not parts:
        parts.insert(0, OneOf(attribute=PLATE, values=whole))
    return _joined(Disjunction, parts) or parts[0]


def _joined(
    form: type[Conjunction | Disjunction], parts: list[Expression]
) -> Expression | None:
    if len(parts) > 1:
        return form(parts=tuple(parts))
    return parts[0] if parts else None
