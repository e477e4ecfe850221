"""Rules as an earlier version of the product kept them: its commands were the state. Pure.

In: records of `control.watchlist` from when it was compacted, what is decided already. Out: the
decisions that are missing, under the versions that the commands had: two sites share those. Never:
a rule again that was removed since.
"""

from __future__ import annotations

import msgspec

from alarm.decisions.known_rules import KnownRules
from bus.client.model import ConsumedRecord
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.table_versions import TableVersions

_decode = msgspec.json.Decoder(WatchCommand).decode


class EarlierCommands:
    """Invariant: `_commands` has the newest command of each rule id in `_versions`; requests begin
    at `end_offset`: with the first command that has an id, which no earlier version gave it."""

    def __init__(self) -> None:
        self._versions = TableVersions()
        self._commands: dict[str, WatchCommand] = {}
        self.end_offset = 0
        self._are_requests = False

    def apply(self, record: ConsumedRecord) -> None:
        """The next one."""
        command = _command(record)
        self._are_requests |= command is not None and bool(command.command_id)
        if self._are_requests:
            return
        self.end_offset = record.offset + 1
        if command is not None:
            self._accept(command)
        elif record.value is None:
            rule_id = (record.key or b"").decode("utf-8", "replace")
            if self._versions.forget(rule_id):
                self._commands.pop(rule_id, None)

    def _accept(self, command: WatchCommand) -> None:
        if command.op == "floor":
            self._versions.raise_floor(command.version)
        elif command.op in ("put", "remove") and self._versions.accept(
            command.rule_id, command.version, is_removal=command.op == "remove"
        ):
            self._commands[command.rule_id] = command

    def missing(self, known: KnownRules) -> list[DecidedRule]:
        """What is not decided yet, the floor last."""
        found = [
            msgspec.convert(one, DecidedRule, from_attributes=True)
            for one in self._commands.values()
            if one.version > known.versions.floor and not _is_known(one, known)
        ]
        floor = self._versions.floor
        if floor > known.versions.floor:
            found.append(DecidedRule(rule_id=FLOOR_KEY, op="floor", version=floor))
        return found


def _command(record: ConsumedRecord) -> WatchCommand | None:
    try:
        return _decode(record.value or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _is_known(command: WatchCommand, known: KnownRules) -> bool:
    return (
        command.rule_id in known.versions and known.get(command.rule_id).version >= command.version
    )
