"""Checks a whole segment file against its checksums, also what follows damage.

Yields the valid batches and the damaged ranges between them. Writes nothing and raises nothing for
damaged bytes. Recovery truncates a log at the first damage, because nothing follows a partial
write; this is for files that were whole once and have been damaged since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from broker.disk.port import File
from broker.log.batch_scanner import (
    CHUNK_BYTES,
    OFFSETS_PER_SEGMENT,
    ScannedBatch,
    is_plausible_header,
)
from broker.log.log import Log
from bus.records.batch import CRC_FROM, HEADER_BYTES, RecordsError, header_at
from bus.records.read import read_records

SEARCH_BYTES = 4 * 1024 * 1024
"""Searched at once for the next valid batch after damage."""

_MAGIC_AT = 16
"""Of a header's 61 bytes the magic is the 17th."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [position, end_position) are no valid batch. The offsets they held begin at
    ``from_offset`` and end before ``to_offset`` (-1: no valid batch follows in this file)."""

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


class _ChunkedReader:
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
) -> Iterator[ScannedBatch | Damage]:
    """Every batch of the first ``size`` bytes; with ``records`` each is unpacked too.

    The base offset lies outside the checksum. Of two contradicting neighbours the one that
    does not continue where the batch before it ended is damaged; ``end_offset``, where it is
    known, is the segment's.
    """
    read = _ChunkedReader(file, size)
    limit = base_offset + OFFSETS_PER_SEGMENT if end_offset is None else end_offset
    floor, position = base_offset, 0
    held: ScannedBatch | None = None
    while position < size:
        one = _sound_at(read, position, size)
        if isinstance(one, str):
            if held is not None:
                yield _check_records(held, records)
                floor, held = held.header.end_offset, None
            behind = next_sound(read, position, size, floor, limit)
            yield Damage(position, behind[0], floor, behind[1], one)
            position = behind[0]
            continue
        position += one.header.size_bytes
        after = floor if held is None else held.header.end_offset
        if one.header.end_offset <= limit and one.header.base_offset >= after:
            if held is not None:
                yield _check_records(held, records)
                floor = after
            held = one
        elif held is None or held.header.base_offset == floor or one.header.end_offset > limit:
            yield _misplaced(one, position, after, -1)
        else:
            yield _misplaced(held, one.position, floor, one.header.base_offset)
            held = one
    if held is not None:
        yield _check_records(held, records)


def _misplaced(found: ScannedBatch, end_position: int, from_offset: int, to_offset: int) -> Damage:
    fault = f"offset {found.header.base_offset} does not fit here"
    return Damage(found.position, end_position, from_offset, to_offset, fault)


def _check_records(found: ScannedBatch, records: bool) -> ScannedBatch | Damage:
    """The batch, or damage if its records cannot be read although its checksum is right."""
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


def _sound_at(read: _ChunkedReader, position: int, size: int) -> ScannedBatch | str:
    """The file may be shorter than ``size``: truncated since, or cut off by a repair of its file
    system."""
    if position + HEADER_BYTES > size:
        return "the file ends inside a batch header"
    head = read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return "the file ends before its log does"
    header = header_at(head, 0)
    if not is_plausible_header(header):
        return "these bytes are no batch header"
    if position + header.size_bytes > size:
        return "the file ends inside a batch"
    data = read(position, header.size_bytes)
    if len(data) < header.size_bytes:
        return "the file ends before its log does"
    if crc32c(data[CRC_FROM:]) != header.crc:
        return "the CRC does not match"
    return ScannedBatch(position, header, data)


def next_sound(
    read: _ChunkedReader, position: int, size: int, from_offset: int, limit: int
) -> tuple[int, int]:
    """Position and base offset of the first valid batch after the damage at ``position``; the end
    of the file and -1 if there is none."""

    def offset_at(where: int) -> int | None:
        found = _sound_at(read, where, size)
        if isinstance(found, str):
            return None
        in_order = from_offset <= found.header.base_offset and found.header.end_offset <= limit
        return found.header.base_offset if in_order else None

    head = read(position, HEADER_BYTES)
    if len(head) == HEADER_BYTES and is_plausible_header(header := header_at(head, 0)):
        # Its length may be right: skipping by it never mistakes the contents of a record for a
        # batch.
        behind = position + header.size_bytes
        found = offset_at(behind)
        if found is not None:
            return behind, found
    at = position + 1
    while at < size:
        data = bytes(read(at, min(SEARCH_BYTES + HEADER_BYTES, size - at)))
        for candidate in _candidates(data):
            found = offset_at(at + candidate)
            if found is not None:
                return at + candidate, found
        at += SEARCH_BYTES
    return size, -1


def _candidates(data: bytes) -> Iterator[int]:
    """Positions where a header may begin: the magic byte is at its offset."""
    at = 0
    while (found := data.find(b"\x02", at + _MAGIC_AT)) >= 0:
        at = found - _MAGIC_AT
        yield at
        at += 1


def audit_from(log: Log, offset: int) -> Iterator[ScannedBatch | Damage]:
    """Yields what is still readable from ``offset`` on: valid batches of its segment and the damage
    between them. Not used by fetches: the segment is read from its beginning."""
    segment = log.segments.since(offset)[0]
    end_offset = segment_end(log, offset)
    file = segment.file.pin()  # the caller does other work between: the pool may close its own
    try:
        for found in audit(file, segment.size_bytes, segment.base_offset, end_offset=end_offset):
            end = found.header.end_offset if isinstance(found, ScannedBatch) else found.to_offset
            if end > offset or end < 0:
                yield found
    finally:
        file.close()


def segment_end(log: Log, offset: int) -> int:
    """Where the segment ends that holds ``offset``."""
    rest = log.segments.since(offset)
    return rest[1].base_offset if len(rest) > 1 else log.end_offset
