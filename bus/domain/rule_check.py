"""Which rules may be put: one answer for console, API and command line. Pure.

In: a command, the time. Out: `RuleError`, or nothing. Never: another opinion than `alarm.rules`:
whatever is taken here meets some record.
"""

from __future__ import annotations

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Expression
from bus.contracts.plate_lists import LIST_RULE
from bus.contracts.proposals import SEPARATOR
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.command_error import CommandError
from bus.domain.expressions.check import check_complete
from bus.domain.expressions.parse import parse
from bus.domain.expressions.tree import ExpressionError, check_size, with_zone
from bus.domain.fuzzy_plate import (
    LEAST_HIGHEST,
    MARK,
    MOST_HIGHEST,
    PRICE_END,
    WHOLE_PLATE,
    fuzzy_plate,
    is_fuzzy,
)
from bus.domain.matchable import MATCHABLE
from bus.domain.plate_patterns import LEAST_NAMED, is_pattern, plate_pattern
from bus.domain.plates import MAX_PLATE_CHARACTERS
from bus.domain.rule_values import PLATE, wanted
from bus.domain.visibility import check_units

MAX_VALUES = 50  # accepted values of one attribute; more is a list for another kind of rule
MAX_VALUE_CHARACTERS = 100
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 500
MAX_TARGET_CHARACTERS = 64
MAX_QUIET_S = 24 * 3600
LAST_MS = 253_402_214_400_000  # 9999-12-31 UTC: no later capture can be written


class RuleError(CommandError):
    """A rule that would match nothing or everything; `column`: of a text, the character at fault,
    from 1."""

    def __init__(self, field: str, text: str, code: str, column: int = 0) -> None:
        super().__init__(field, text, code)
        self.column = column

    @classmethod
    def of_tree(cls, error: ExpressionError) -> RuleError:
        """What is wrong with the tree of a rule, or with its text."""
        return cls("where", str(error), error.code, error.column)


def is_over(command: WatchCommand, now_ms: int) -> bool:
    """Whether the rule was in force only until before now."""
    return 0 < command.valid_until_ms <= now_ms


def is_in_force(decision: WatchCommand, now_ms: int) -> bool:
    """Of a usual rule until it is removed, also where its time is over; an emergency rule ends by
    itself."""
    is_ended = bool(decision.emergency_hours) and is_over(decision, now_ms)
    return decision.op == "put" and not is_ended


def check_rule(command: WatchCommand, now_ms: int) -> None:
    """Raise `RuleError` for a rule that cannot be meant."""
    if command.rule_id == FLOOR_KEY:
        raise RuleError("rule_id", f"{FLOOR_KEY} is no rule's id", "reserved")
    if SEPARATOR in command.rule_id:
        raise RuleError("rule_id", f"a rule's id has no {SEPARATOR} in it", "reserved")
    if command.rule_id.startswith(LIST_RULE):
        raise RuleError(
            "rule_id", f"{LIST_RULE}… is the id of a list's own rule; choose another", "reserved"
        )
    if not command.name or len(command.name) > MAX_NAME_CHARACTERS:
        raise RuleError("name", f"1 to {MAX_NAME_CHARACTERS} characters", "name_length")
    if len(command.note) > MAX_NOTE_CHARACTERS:
        raise RuleError("note", f"at most {MAX_NOTE_CHARACTERS} characters", "note_length")
    if not command.match and command.where is None:
        raise RuleError("match", "a rule needs at least one attribute", "no_attribute")
    for attribute, values in command.match.items():
        _check_values(command.kind, attribute, values)
    if command.where is not None:
        _check_tree(command.kind, command.where)
    _check_times(command, now_ms)
    _check_units(command)
    _check_target(command)
    if not 0 <= command.quiet_s <= MAX_QUIET_S:
        raise RuleError("quiet_s", f"0 (none) to {MAX_QUIET_S} seconds", "quiet_time")


def _check_target(command: WatchCommand) -> None:
    target = command.target
    if target != target.strip() or len(target) > MAX_TARGET_CHARACTERS or not target.isprintable():
        raise RuleError(
            "target",
            f"at most {MAX_TARGET_CHARACTERS} printable characters, no space at either end",
            "target_length",
        )
    if target and not command.case.strip():
        raise RuleError("target", "a target is one of a case: name the case", "target_no_case")


def _check_units(command: WatchCommand) -> None:
    try:
        check_units(command.visible_to)
    except CommandError as error:
        raise RuleError(error.field, str(error), error.code) from None


def _check_tree(kind: str, tree: Expression) -> None:
    try:
        check_complete(kind, tree)
    except ExpressionError as error:
        raise RuleError.of_tree(error) from None


def parsed_where(kind: str, where: str | Expression, zone: str) -> Expression | None:
    """The tree that a person or a program means, with the zone of the site for windows without one;
    None for an empty text. Raises `RuleError` with the column of the text."""
    if isinstance(where, str) and not where.strip():
        return None
    try:
        if not isinstance(where, str):
            check_size(where)
            return with_zone(where, zone)
        return with_zone(parse(where, kind), zone)
    except ExpressionError as error:
        raise RuleError.of_tree(error) from None


def _check_times(command: WatchCommand, now_ms: int) -> None:
    for field in ("valid_from_ms", "valid_until_ms"):
        if not 0 <= getattr(command, field) <= LAST_MS:
            raise RuleError(field, f"0 to {LAST_MS} milliseconds since 1970", "no_time")
    if is_over(command, now_ms):
        raise RuleError("valid_until_ms", "lies in the past", "past")
    if 0 < command.valid_until_ms <= command.valid_from_ms:
        raise RuleError("valid_until_ms", "lies before the beginning", "before_beginning")


def _check_values(kind: str, attribute: str, values: list[str]) -> None:
    if attribute not in MATCHABLE[kind]:
        known = ", ".join(MATCHABLE[kind])
        raise RuleError(
            attribute,
            f"not an attribute of a {kind} record; expected one of: {known}",
            "no_such_attribute",
        )
    if not 1 <= len(values) <= MAX_VALUES:
        raise RuleError(attribute, f"1 to {MAX_VALUES} values", "value_count")
    for value in values:
        _check_value(attribute, value)


def _check_value(attribute: str, value: str) -> None:
    if not value.strip() or len(value) > MAX_VALUE_CHARACTERS:
        raise RuleError(
            attribute, f"each value has 1 to {MAX_VALUE_CHARACTERS} characters", "value_length"
        )
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise RuleError(attribute, f"{value!a} is no text in UTF-8", "no_text")
    if attribute == PLATE and is_fuzzy(value):
        _check_fuzzy(value)
        return
    if wanted(attribute, value) or (attribute == PLATE and _is_meant_as_pattern(value)):
        return
    what = f"a plate of 1 to {MAX_PLATE_CHARACTERS} letters and digits" if attribute == PLATE else (
        "a value that was read"
    )  # fmt: skip
    raise RuleError(attribute, f"{value!r} is not {what}: no record would match", "unread")


def _is_meant_as_pattern(plate: str) -> bool:
    """Raises `RuleError` for one that too many plates are like, or none."""
    if not is_pattern(plate):
        return False
    if plate_pattern(plate) is None:
        raise RuleError(
            PLATE,
            f"{plate!r} has to name at least {LEAST_NAMED} letters or digits beside ? (one"
            f" character) and * (any run of them), and at most {MAX_PLATE_CHARACTERS} characters",
            "pattern",
        )
    return True


def _check_fuzzy(plate: str) -> None:
    if fuzzy_plate(plate) is None:
        raise RuleError(
            PLATE,
            f"{plate!r}: write {MARK} before {WHOLE_PLATE}; or {MARK}0.7{PRICE_END} with another"
            f" highest price, {LEAST_HIGHEST} to {MOST_HIGHEST}",
            "fuzzy",
        )
