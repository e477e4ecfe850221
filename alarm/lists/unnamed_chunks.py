"""Which chunks of lines no list names any more, or never did. Pure.

In: the records of `state.lists` from its first to its end, the time. Out: keys that get a
tombstone. Never: a chunk that may be being named: it is younger than `UNNAMED_MS`, and the decider
names only much younger ones (`MAX_CHUNK_AGE_MS`); one that a proposal names which waits, or may
just be being approved; a chunk of a list whose record this version cannot read.
"""

from __future__ import annotations

from alarm.decisions.known_lists import DecidedLists, list_record_of
from bus.client.model import ConsumedRecord
from bus.contracts.plate_lists import is_chunk_key, named_keys

UNNAMED_MS = 3600_000
CARRIED_UNNAMED_MS = 24 * 3600_000
"""At a site that is carried to: behind a broken link what names a chunk may come hours after it."""


class UnnamedChunks:
    """Invariant: `_written_ms` has the chunks that stand there, without those that a tombstone
    took; `_unreadable` the lists whose last record is none of this version."""

    def __init__(self) -> None:
        self._lists = DecidedLists()
        self._written_ms: dict[str, int] = {}
        self._unreadable: set[str] = set()

    def apply(self, record: ConsumedRecord) -> None:
        """The next record of the topic."""
        key = (record.key or b"").decode("utf-8", "replace")
        if is_chunk_key(key):
            if record.value is None:
                self._written_ms.pop(key, None)
            else:
                self._written_ms[key] = record.timestamp_ms
            return
        if self._lists.apply_proposal(key, record.value):
            return
        self._unreadable.discard(key)
        if record.value is None:
            self._lists.forget(key)
        elif (found := list_record_of(record)) is None:
            self._unreadable.add(key)
        else:
            self._lists.on_decided(found)

    def due(self, now_ms: int, *, is_primary: bool) -> list[bytes]:
        """Keys, in the order in which they were written."""
        oldest_ms = now_ms - (UNNAMED_MS if is_primary else CARRIED_UNNAMED_MS)
        named = {key for one in self._lists.in_force.values() for key in named_keys(one)}
        named |= {
            key for one in self._lists.unsettled() for key in one.named_keys
            if now_ms < one.ends_ms + UNNAMED_MS
        }  # fmt: skip
        return [
            key.encode() for key, written_ms in self._written_ms.items()
            if key not in named and written_ms < oldest_ms
            and key.split("/")[0] not in self._unreadable
        ]  # fmt: skip
