"""What has been decided of lists of plates, and which chunks of lines stand there. Pure.

In: records of `state.lists`. Out: of each list its newest record; of each chunk its hash and when
it was written. Never: lines: five million are some sixty megabytes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from alarm.decisions.decided_lists import DecidedLists, list_record_of
from bus.client.model import ConsumedRecord
from bus.contracts.plate_lists import ListRecord, is_chunk_key
from bus.domain.list_chunks import sha256_of


class ListState(Enum):
    """Where a list is in its life."""

    ABSENT = "absent"
    IN_FORCE = "in force"
    ENDED = "ended"


class KnownChunk(NamedTuple):
    """One that stands on the topic."""

    sha256: str
    written_ms: int


NO_LIST = ListRecord(list_id="", op="remove")


class KnownLists(DecidedLists):
    """Invariant: `chunks` has the last value of each key of a chunk, without those that a tombstone
    took."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: dict[str, KnownChunk] = {}

    def get(self, list_id: str) -> ListRecord:
        """`NO_LIST` of one that was never decided on, or was forgotten."""
        return self.lists.get(list_id, NO_LIST)

    def state_of(self, list_id: str) -> ListState:
        """Where it is in its life."""
        record = self.lists.get(list_id)
        if record is None:
            return ListState.ABSENT
        return ListState.IN_FORCE if record.op == "put" else ListState.ENDED

    def apply(self, record: ConsumedRecord) -> None:
        """The next one; what is not ours changes nothing."""
        key = (record.key or b"").decode("utf-8", "replace")
        if is_chunk_key(key):
            if record.value is None:
                self.chunks.pop(key, None)
            else:
                self.chunks[key] = KnownChunk(sha256_of(record.value), record.timestamp_ms)
        elif record.value is None:
            self.forget(key)
        elif (found := list_record_of(record)) is not None:
            self.on_decided(found)
