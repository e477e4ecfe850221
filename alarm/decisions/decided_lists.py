"""What has been decided of lists: of each its newest record. Pure.

In: records of `state.lists`. Out: lists in force. Never: chunks, or what unpacks them: the watch
has little memory.
"""

from __future__ import annotations

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.plate_lists import ListRecord
from bus.domain.table_versions import TableVersions

_decode = msgspec.json.Decoder(ListRecord).decode


class DecidedLists:
    """Invariant: `lists` has the record with the greatest version of each list in `versions`."""

    def __init__(self) -> None:
        self.versions = TableVersions()
        self.lists: dict[str, ListRecord] = {}

    @property
    def in_force(self) -> dict[str, ListRecord]:
        """By list id."""
        return {key: record for key, record in self.lists.items() if record.op == "put"}

    def on_decided(self, record: ListRecord) -> bool:
        """One that is newer than what is known changes it; whether it was."""
        if record.op == "floor":
            self.versions.raise_floor(record.version)
            return False
        is_removal = record.op == "remove"
        if not self.versions.accept(record.list_id, record.version, is_removal=is_removal):
            return False
        self.lists[record.list_id] = record
        return True

    def forget(self, list_id: str) -> bool:
        """A tombstone; whether it took the list away."""
        if not self.versions.forget(list_id):
            return False
        self.lists.pop(list_id, None)
        return True


def list_record_of(record: ConsumedRecord) -> ListRecord | None:
    """None of what is no record of a list."""
    try:
        return _decode(record.value or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
