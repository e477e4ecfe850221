"""All of a segment file against its checksums, also what lies behind damage.

In: a file, its length. Out: the sound batches in order, and between them what is damaged. Never: a
write, nor an exception for damaged bytes. Recovery cuts a log at the first damage, because behind a
torn tail is nothing; this is for files that were whole once and have rotted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from broker.disk.port import File
from broker.log.scan import CHUNK_BYTES, OFFSETS_PER_SEGMENT, Found, shape_is_sound
from bus.records.batch import CRC_FROM, HEADER_BYTES, RecordsError, header_at
from bus.records.read import read_records

LOOK_BYTES = 4 * 1024 * 1024
"""Searched at once for the next sound batch behind damage."""

_MAGIC_AT = 16
"""Of a header's 61 bytes the magic is the 17th."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [position, end_position) are no sound batch. The offsets they held begin at
    ``from_offset`` and end before ``to_offset`` (-1: nothing sound follows in this file)."""

    position: int
    end_position: int
    from_offset: int
    to_offset: int
    fault: str

    def __str__(self) -> str:
        until = f"before {self.to_offset}" if self.to_offset >= 0 else "the end of the file"
        return (
            f"bytes {self.position} to {self.end_position}, offsets from {self.from_offset} to "
            f"{until}: {self.fault}"
        )


class _Pieces:
    """A file's bytes, read a chunk at a time."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._chunk = memoryview(b"")
        self._at = 0

    def __call__(self, position: int, size: int) -> memoryview:
        at = position - self._at
        if at < 0 or at + size > len(self._chunk):
            wanted = min(max(size, CHUNK_BYTES), max(self._size - position, 0))
            self._chunk, self._at, at = memoryview(self._file.read(position, wanted)), position, 0
        return self._chunk[at : at + size]


def audit(
    file: File,
    size: int,
    base_offset: int,
    *,
    end_offset: int | None = None,
    records: bool = False,
) -> Iterator[Found | Damage]:
    """Every batch of the first ``size`` bytes, in order; with ``records`` each is unpacked too.

    The base offset lies outside the checksum. Of two neighbours that contradict each other the one
    that does not go on where the batch before it ended is damaged; ``end_offset``, where it is
    known, is the segment's.
    """
    read = _Pieces(file, size)
    limit = base_offset + OFFSETS_PER_SEGMENT if end_offset is None else end_offset
    floor, position = base_offset, 0
    held: Found | None = None
    while position < size:
        one = _sound_at(read, position, size)
        if isinstance(one, str):
            if held is not None:
                yield _told(held, records)
                floor, held = held.header.end_offset, None
            behind = next_sound(read, position, size, floor, limit)
            yield Damage(position, behind[0], floor, behind[1], one)
            position = behind[0]
            continue
        position += one.header.size_bytes
        after = floor if held is None else held.header.end_offset
        if one.header.end_offset <= limit and one.header.base_offset >= after:
            if held is not None:
                yield _told(held, records)
                floor = after
            held = one
        elif held is None or held.header.base_offset == floor or one.header.end_offset > limit:
            yield _misplaced(one, position, after, -1)
        else:
            yield _misplaced(held, one.position, floor, one.header.base_offset)
            held = one
    if held is not None:
        yield _told(held, records)


def _misplaced(found: Found, end_position: int, from_offset: int, to_offset: int) -> Damage:
    fault = f"offset {found.header.base_offset} does not fit here"
    return Damage(found.position, end_position, from_offset, to_offset, fault)


def _told(found: Found, records: bool) -> Found | Damage:
    """A batch in its place, or what a consumer stumbles over although its checksum is right."""
    if not records:
        return found
    try:
        for _ in read_records(bytes(found.data)):
            pass
    except RecordsError as error:
        header, end = found.header, found.position + found.header.size_bytes
        fault = f"the checksum is right, the records are not ({error})"
        return Damage(found.position, end, header.base_offset, header.end_offset, fault)
    return found


def _sound_at(read: _Pieces, position: int, size: int) -> Found | str:
    if position + HEADER_BYTES > size:
        return "the file ends inside a batch header"
    header = header_at(read(position, HEADER_BYTES), 0)
    if not shape_is_sound(header):
        return "these bytes are no batch header"
    if position + header.size_bytes > size:
        return "the file ends inside a batch"
    data = read(position, header.size_bytes)
    if crc32c(data[CRC_FROM:]) != header.crc:
        return "the CRC does not match"
    return Found(position, header, data)


def next_sound(
    read: _Pieces, position: int, size: int, from_offset: int, limit: int
) -> tuple[int, int]:
    """Position and base offset of the first sound batch behind the damage at ``position``; the end
    of the file and -1 if there is none."""

    def offset_at(where: int) -> int | None:
        found = _sound_at(read, where, size)
        if isinstance(found, str):
            return None
        in_order = from_offset <= found.header.base_offset and found.header.end_offset <= limit
        return found.header.base_offset if in_order else None

    head = read(position, HEADER_BYTES)
    if len(head) == HEADER_BYTES and shape_is_sound(header := header_at(head, 0)):
        # Its length may be right. Only then is what its records hold never taken for a batch.
        behind = position + header.size_bytes
        found = offset_at(behind)
        if found is not None:
            return behind, found
    at = position + 1
    while at < size:
        data = bytes(read(at, min(LOOK_BYTES + HEADER_BYTES, size - at)))
        for candidate in _candidates(data):
            found = offset_at(at + candidate)
            if found is not None:
                return at + candidate, found
        at += LOOK_BYTES
    return size, -1


def _candidates(data: bytes) -> Iterator[int]:
    """Where a header might begin: the magic stands in its place."""
    at = 0
    while (found := data.find(b"\x02", at + _MAGIC_AT)) >= 0:
        at = found - _MAGIC_AT
        yield at
        at += 1
