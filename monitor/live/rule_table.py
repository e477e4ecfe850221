"""The watch list as its topic tells it: the newest command per rule is the state (pure).

In: commands in any order. Out: the rules in force at a moment. Never: matching, Kafka.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.contracts.commands import WatchCommand
from bus.domain.rule_check import is_over


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
        rules = [c for c in self._newest.values() if c.op == "put" and not is_over(c, now_ms)]
        return sorted(rules, key=lambda c: (-c.version, c.rule_id))

    def next_version(self, rule_id: str, now_ms: int) -> int:
        """A version that wins over what is known, even when a clock went back."""
        known = self._newest.get(rule_id)
        return max(now_ms, known.version + 1 if known else 0)


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
