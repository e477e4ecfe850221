"""What `state.lists` says to who reads lists: records in force, and the lines that they name. Pure.

In: the topic's records. Out: of each list its newest record; its changes; the values of those bases
that were asked for. Never: the values of other bases: five million lines are some sixty megabytes;
a chunk that no record names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from alarm.decisions.known_lists import DecidedLists, list_record_of
from bus.client.model import ConsumedRecord
from bus.contracts.plate_lists import (
    FaceLine,
    ListLine,
    ListRecord,
    base_key,
    change_key,
    is_chunk_key,
    named_keys,
)
from bus.domain.list_chunks import ListChunkError, read_chunk, read_face_chunk


class ListBase(NamedTuple):
    """Whose base: the same base belongs to one list."""

    list_id: str
    base: str


class ListChanges(NamedTuple):
    """What a list's changes come to: lines by plate, and plates that went."""

    added: dict[str, ListLine]
    removed: frozenset[str]


class GalleryChanges(NamedTuple):
    """What a gallery's changes come to: lines by entry, and entries that went."""

    added: dict[str, FaceLine]
    removed: frozenset[str]


class StoredLists(DecidedLists):
    """Invariant: `_values` has the chunks of changes, without those of bases that a record
    replaced, and of the bases in `wanted`."""

    def __init__(self, wanted: frozenset[ListBase] | None = frozenset()) -> None:
        """`wanted`: None for all."""
        super().__init__()
        self._wanted = wanted
        self._values: dict[str, bytes] = {}

    def apply(self, record: ConsumedRecord) -> None:
        """The next one; what is not ours changes nothing."""
        key = (record.key or b"").decode("utf-8", "replace")
        if is_chunk_key(key):
            self._apply_chunk(key, record.value)
        elif self.apply_proposal(key, record.value):
            pass
        elif record.value is None:
            if self.forget(key):
                self._drop_others(key, "")
        elif (found := list_record_of(record)) is not None and self.on_decided(found):
            self._drop_others(found.list_id, found.base)

    def _apply_chunk(self, key: str, value: bytes | None) -> None:
        list_id, base, number = [*key.split("/"), "", ""][:3]
        if value is None:
            self._values.pop(key, None)
        elif (
            self._wanted is None or number.startswith("+")
            or ListBase(list_id, base) in self._wanted
        ):  # fmt: skip
            self._values[key] = value

    def _drop_others(self, list_id: str, base: str) -> None:
        """Changes of other bases of the list: what comes later is of this one."""
        begin, kept = f"{list_id}/", change_key(list_id, base, 0)[:-1]
        gone = [
            key for key in self._values
            if key.startswith(begin) and "/+" in key and not key.startswith(kept)
        ]  # fmt: skip
        for key in gone:
            del self._values[key]

    def changes_of(self, record: ListRecord) -> ListChanges:
        """Of a list in force. Raises `ListChunkError`."""
        added: dict[str, ListLine] = {}
        removed: set[str] = set()
        for named in record.changes:
            key = change_key(record.list_id, record.base, named.number)
            chunk = read_chunk(named, self._value(key))
            for plate in chunk.removed:
                added.pop(plate, None)
                removed.add(plate)
            for line in chunk.lines:
                added[line.plate] = line
        return ListChanges(added, frozenset(removed - added.keys()))

    def base_lines(self, record: ListRecord) -> Iterator[ListLine]:
        """Of a base that is wanted, as they come; a chunk is forgotten behind them. Raises
        `ListChunkError`."""
        for named in record.chunks:
            key = base_key(record.list_id, record.base, named.number)
            yield from read_chunk(named, self._value(key)).lines
            del self._values[key]

    def lines(self, record: ListRecord) -> Iterator[ListLine]:
        """All that is in force of a list whose base is wanted. Raises `ListChunkError`."""
        changes = self.changes_of(record)
        gone = changes.removed | changes.added.keys()
        yield from (line for line in self.base_lines(record) if line.plate not in gone)
        yield from changes.added.values()

    def face_changes_of(self, record: ListRecord) -> GalleryChanges:
        """Of a gallery in force. Raises `ListChunkError`."""
        added: dict[str, FaceLine] = {}
        removed: set[str] = set()
        for named in record.changes:
            key = change_key(record.list_id, record.base, named.number)
            chunk = read_face_chunk(named, self._value(key))
            for entry in chunk.removed:
                added.pop(entry, None)
                removed.add(entry)
            for line in chunk.lines:
                added[line.entry] = line
        return GalleryChanges(added, frozenset(removed - added.keys()))

    def base_faces(self, record: ListRecord) -> Iterator[FaceLine]:
        """As `base_lines`, of a gallery. Raises `ListChunkError`."""
        for named in record.chunks:
            key = base_key(record.list_id, record.base, named.number)
            yield from read_face_chunk(named, self._value(key)).lines
            del self._values[key]

    def faces(self, record: ListRecord) -> Iterator[FaceLine]:
        """All that is in force of a gallery whose base is wanted. Raises `ListChunkError`."""
        changes = self.face_changes_of(record)
        gone = changes.removed | changes.added.keys()
        yield from (line for line in self.base_faces(record) if line.entry not in gone)
        yield from changes.added.values()

    def named_values(self, record: ListRecord) -> dict[str, bytes]:
        """The chunks of a list whose base is wanted, as they stand on the topic. Raises
        `ListChunkError`."""
        found = {key: self._value(key) for key in named_keys(record)}
        for key, named in named_keys(record).items():
            if record.is_gallery:
                read_face_chunk(named, found[key])
            else:
                read_chunk(named, found[key])
        return found

    def _value(self, key: str) -> bytes:
        value = self._values.get(key)
        if value is None:
            raise ListChunkError(f"{key} is not on the topic")
        return value
