"""The watch list as its topic tells it: the newest command per rule is the state (pure).

In: commands in any order. Out: the rules in force at a moment. Never: matching, Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.contracts.commands import WatchCommand
from bus.contracts.keys import PLACE_AND_TIME
from bus.domain.kinds import KEYS_OF_KIND, WIRE_KEYS

MAX_VALUES = 50  # accepted values of one attribute; more is a list for another kind of rule
MAX_VALUE_CHARACTERS = 100
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 500

_HIDDEN = {
    "captured_at",
    "stored_at",
    "sender_record_id",
    "device_sequence",
    "face_feature",
    "feature_model",
    "plate_confidence",
    "plate_character_confidences",
}


def _matchable(table: Mapping[str, str]) -> tuple[str, ...]:
    own = [a for a in table.values() if a not in _HIDDEN and not a.endswith("_url")]
    places = set(PLACE_AND_TIME.values())
    return tuple(sorted(own, key=lambda a: a in places))


# What a rule may ask for, per kind: what the device says of the target, then where it was seen.
MATCHABLE: dict[str, tuple[str, ...]] = {
    kind: _matchable(KEYS_OF_KIND[kind]) for kind in WIRE_KEYS
}


class RuleError(ValueError):
    """A rule that would match nothing or everything; `field` names the part at fault."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


class RuleTable:
    """Invariant: per rule id the command with the highest version; a removed one stays as
    removed.
    """

    def __init__(self) -> None:
        self._newest: dict[str, WatchCommand] = {}

    def apply(self, command: WatchCommand) -> bool:
        """Take a command; False when a later version is already known."""
        known = self._newest.get(command.rule_id)
        if known is not None and known.version >= command.version:
            return False
        self._newest[command.rule_id] = command
        return True

    def forget(self, rule_id: str) -> None:
        """A tombstone on the topic: nothing is known of the rule any more."""
        self._newest.pop(rule_id, None)

    def get(self, rule_id: str) -> WatchCommand | None:
        """The newest command of a rule, removed or not."""
        return self._newest.get(rule_id)

    def in_force(self, now_ms: int) -> list[WatchCommand]:
        """Rules put and not removed nor expired (those of the future too), newest first."""
        rules = [c for c in self._newest.values() if c.op == "put" and not _over(c, now_ms)]
        return sorted(rules, key=lambda c: (-c.version, c.rule_id))

    def next_version(self, rule_id: str, now_ms: int) -> int:
        """A version that wins over what is known, even when a clock went back."""
        known = self._newest.get(rule_id)
        return max(now_ms, known.version + 1 if known else 0)


def _over(command: WatchCommand, now_ms: int) -> bool:
    return 0 < command.valid_until_ms <= now_ms


def check_rule(command: WatchCommand, now_ms: int) -> None:
    """Raise `RuleError` for a rule that cannot be meant."""
    if not command.name or len(command.name) > MAX_NAME_CHARACTERS:
        raise RuleError("name", f"1 to {MAX_NAME_CHARACTERS} characters")
    if len(command.note) > MAX_NOTE_CHARACTERS:
        raise RuleError("note", f"at most {MAX_NOTE_CHARACTERS} characters")
    if not command.match:
        raise RuleError("match", "a rule needs at least one attribute")
    for attribute, values in command.match.items():
        _check_values(command.kind, attribute, values)
    if _over(command, now_ms):
        raise RuleError("valid_until_ms", "lies in the past")
    if 0 < command.valid_until_ms <= command.valid_from_ms:
        raise RuleError("valid_until_ms", "lies before the beginning")


def _check_values(kind: str, attribute: str, values: list[str]) -> None:
    if attribute not in MATCHABLE[kind]:
        raise RuleError(attribute, f"not an attribute of a {kind} record")
    if not 1 <= len(values) <= MAX_VALUES:
        raise RuleError(attribute, f"1 to {MAX_VALUES} values")
    if any(not v.strip() or len(v) > MAX_VALUE_CHARACTERS for v in values):
        raise RuleError(attribute, f"each value has 1 to {MAX_VALUE_CHARACTERS} characters")


def decode_command(value: bytes) -> WatchCommand | None:
    """A command from the topic; None when it is not one of ours."""
    try:
        return msgspec.json.decode(value, type=WatchCommand)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def rule_row(command: WatchCommand) -> dict[str, Any]:
    """A rule as the API shows it."""
    row: dict[str, Any] = msgspec.to_builtins(command)
    return row
