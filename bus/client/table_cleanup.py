"""What has to be written to a topic that is a table, so that a cleaner may take all but the last
record of each key. Pure.

In: the topic's records from its first to its end, the time. Out: `CleanupPlan`. Never: a key that
this version cannot read; a clock, a client.

Readers go by the version in a value, a cleaner by the offset. So a command that an older one has
overtaken is written once more, and what was removed long ago goes in four steps of which each is
acknowledged before the next: repairs; tombstones of what came too late; the floor; tombstones of
what the floor has made out of date. Who reads between any two of them sees the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bus.client.model import ConsumedRecord
from bus.domain.retention import NEVER_MS
from bus.domain.table_versions import TableVersions


class TableCommand(NamedTuple):
    """What a record of a table says. `over_at_ms`: a put is in force until then; 0: until it is
    removed."""

    key: str
    version: int
    is_removal: bool = False
    is_floor: bool = False
    over_at_ms: int = 0


ReadCommand = Callable[[ConsumedRecord], TableCommand | None]
"""None of what is no command of this version."""


class CleanupPlan(NamedTuple):
    """In the order in which it is written. `repairs` are records of the topic, which are written
    again as they are, or, with a number beside, under that version. `floor`: None where it
    stays."""

    repairs: tuple[tuple[ConsumedRecord, int | None], ...] = ()
    late: tuple[bytes, ...] = ()
    floor: int | None = None
    removed: tuple[bytes, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to write."""
        return not (self.repairs or self.late or self.removed) and self.floor is None


class _Newest(NamedTuple):
    command: TableCommand
    record: ConsumedRecord


class TableCleanup:
    """One reading of a table. Invariant: `_last` has the last record of each key, `_newest` the one
    that readers go by, if there is one; both leave out a key whose last record is unreadable."""

    def __init__(self, read: ReadCommand, *, has_floor: bool = True) -> None:
        """`has_floor`: whether a late command could undo a removal, so that there must be one."""
        self._read = read
        self._has_floor = has_floor
        self._versions = TableVersions()
        self._last: dict[bytes, ConsumedRecord] = {}
        self._newest: dict[bytes, _Newest] = {}

    def apply(self, record: ConsumedRecord) -> None:
        """The next record of the topic."""
        key = record.key
        if key is None:
            return
        if record.value is None:
            self._last[key] = record
            if self._versions.forget(key.decode("utf-8", "replace")):
                self._newest.pop(key, None)
            return
        command = self._read(record)
        if command is None:
            self._last.pop(key, None)
        elif command.is_floor:
            self._versions.raise_floor(command.version)
        else:
            self._last[key] = record
            version, is_removal = command.version, command.is_removal
            if self._versions.accept(command.key, version, is_removal=is_removal):
                self._newest[key] = _Newest(command, record)

    def plan(self, before_ms: int, *, raises_floor: bool = True) -> CleanupPlan:
        """`before_ms`: what was removed, or was over, before that goes. A site that is not the
        primary raises no floor: it may lack what is below and was not carried yet."""
        floor = self._versions.floor
        due = {
            key for key, (command, _) in self._newest.items()
            if _is_due(command, before_ms) and (raises_floor or command.version <= floor)
        }  # fmt: skip
        raised = max((self._newest[key].command.version for key in due), default=-1)
        gone = due | {
            key for key, (command, _) in self._newest.items()
            if command.is_removal and command.version <= max(floor, raised)
        }  # fmt: skip
        values = {key for key, record in self._last.items() if record.value is not None}
        return CleanupPlan(
            tuple(self._repairs(gone)),
            tuple(sorted(values - self._newest.keys())),
            raised if raised > floor and self._has_floor else None,
            tuple(sorted(values & gone)),
        )

    def _repairs(self, gone: set[bytes]) -> list[tuple[ConsumedRecord, int | None]]:
        """What a cleaner would take although readers go by it. Behind the floor only a newer
        version is accepted."""
        found: list[tuple[ConsumedRecord, int | None]] = []
        floor = self._versions.floor
        for key, (command, record) in self._newest.items():
            last = self._last.get(key)
            if last is not None and key not in gone and last.offset != record.offset:
                found.append((record, None if command.version > floor else floor + 1))
        return found


def _is_due(command: TableCommand, before_ms: int) -> bool:
    if command.version >= before_ms or before_ms == NEVER_MS:
        return False
    return command.is_removal or 0 < command.over_at_ms < before_ms


