"""What `state.lists` says to who reads lists: records in force, and the lines that they name. Pure.

In: the topic's records. Out: of each list its newest record; its changes; the values of those bases
that were asked for. Never: the values of other bases: five million lines are some sixty megabytes;
a chunk that no record names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from alarm.decisions.known_lists import DecidedLists, list_record_of
from bus.client.model import ConsumedRecord
from bus.contracts.plate_lists import (
    FaceLine,
    ListLine,
    ListRecord,
    NamedChunk,
    base_key,
    change_key,
    is_chunk_key,
    named_keys,
)
from bus.domain.list_chunks import ListChunkError, read_chunk, read_face_chunk

Line = TypeVar("Line", ListLine, FaceLine)


class _ReadLines(Protocol[Line]):
    """A chunk that was read."""

    @property
    def lines(self) -> list[Line]: ...
    @property
    def removed(self) -> list[str]: ...


_ReadChunk = Callable[[NamedChunk, bytes], _ReadLines[Line]]


class ListBase(NamedTuple):
    """Whose base: the same base belongs to one list."""

    list_id: str
    base: str


class ListChanges(NamedTuple, Generic[Line]):
    """What the changes of a list or gallery come to: lines by key, and keys that went."""

    added: dict[str, Line]
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

    def changes_of(self, record: ListRecord) -> ListChanges[ListLine]:
        """Of a list in force. Raises `ListChunkError`."""
        return self._changes(record, read_chunk)

    def base_lines(self, record: ListRecord) -> Iterator[ListLine]:
        """Of a base that is wanted, as they come; a chunk is forgotten behind them. Raises
        `ListChunkError`."""
        return self._base(record, read_chunk)

    def lines(self, record: ListRecord) -> Iterator[ListLine]:
        """All that is in force of a list whose base is wanted. Raises `ListChunkError`."""
        return self._in_force(record, read_chunk)

    def face_changes_of(self, record: ListRecord) -> ListChanges[FaceLine]:
        """As `changes_of`, of a gallery. Raises `ListChunkError`."""
        return self._changes(record, read_face_chunk)

    def base_faces(self, record: ListRecord) -> Iterator[FaceLine]:
        """As `base_lines`, of a gallery. Raises `ListChunkError`."""
        return self._base(record, read_face_chunk)

    def faces(self, record: ListRecord) -> Iterator[FaceLine]:
        """As `lines`, of a gallery. Raises `ListChunkError`."""
        return self._in_force(record, read_face_chunk)

    def _changes(self, record: ListRecord, read: _ReadChunk[Line]) -> ListChanges[Line]:
        added: dict[str, Line] = {}
        removed: set[str] = set()
        for named in record.changes:
            key = change_key(record.list_id, record.base, named.number)
            chunk = read(named, self._value(key))
            for gone in chunk.removed:
                added.pop(gone, None)
                removed.add(gone)
            for line in chunk.lines:
                added[line.key] = line
        return ListChanges(added, frozenset(removed - added.keys()))

    def _base(self, record: ListRecord, read: _ReadChunk[Line]) -> Iterator[Line]:
        for named in record.chunks:
            key = base_key(record.list_id, record.base, named.number)
            yield from read(named, self._value(key)).lines
            del self._values[key]

    def _in_force(self, record: ListRecord, read: _ReadChunk[Line]) -> Iterator[Line]:
        changes = self._changes(record, read)
        gone = changes.removed | changes.added.keys()
        yield from (line for line in self._base(record, read) if line.key not in gone)
        yield from changes.added.values()

    def named_values(self, record: ListRecord) -> dict[str, bytes]:
        """The chunks of a list whose base is wanted, as they stand on the topic. Raises
        `ListChunkError`."""
        named = named_keys(record)
        found = {key: self._value(key) for key in named}
        for key, value in found.items():
            (read_face_chunk if record.is_gallery else read_chunk)(named[key], value)
        return found

    def _value(self, key: str) -> bytes:
        value = self._values.get(key)
        if value is None:
            raise ListChunkError(f"{key} is not on the topic")
        return value
