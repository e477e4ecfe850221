"""A segment's batches, some at once: read, checked, unpacked.

In: a file of batches. Out: pieces of whole batches, each in the order of the file. Never: more in
memory than a few buffers (or one batch, if that is larger) and what it unpacks to; a batch that is
damaged handed on: ``DamagedSegment`` instead, the one error of this module beside a disk's.

Damaged is what a checksum or an order of offsets shows. A batch with the right checksum that does
not unpack was stored like that: it is marked as not readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

import numpy as np
from crc32c import crc32c

from broker.disk.port import File
from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.cleaner.columns import (
    Bodies,
    Bytes,
    Flags,
    Headers,
    Numbers,
    RecordColumns,
    headers_at,
    read_columns,
)
from broker.log.cleaner.digests import PADDING
from bus.limits import MAX_BATCH_BYTES
from bus.records.batch import (
    COMPRESSION_MASK,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    BatchHeader,
    RecordsError,
)
from bus.records.compression import decompress

UNPACKED_BYTES = 4 << 20
"""A piece ends where its batches have unpacked to this: enough that what is done for all of them at
once is worth it."""

MIN_READ_BYTES = 4096

BUFFERS_READ = 4
"""So many of `log.cleaner.io.buffer.size` are read at once: what is done once a piece is half of a
pass over pieces of one."""

_LENGTH = Struct(">i").unpack_from
_LENGTH_AT = 8
_PADDING = bytes(PADDING)


class DamagedSegment(Exception):
    """Bytes of a file that were not written like this: nothing of it may get a new checksum."""


class Piece:
    """Neighbouring whole batches of ``data``, and their records in ``buffer``.

    ``headers``, ``starts`` and ``sizes`` (in ``data``) and what is computed of them have an entry a
    batch, ``records`` one a record of the batches that are not ``unreadable``.
    """

    def __init__(self, data: bytes, starts: Numbers, headers: Headers, bodies: PieceBodies) -> None:
        self.data = data
        self.starts = starts
        self.headers = headers
        self.sizes = headers["batch_length"].astype(np.int64) + LENGTH_AND_OFFSET_BYTES
        self.base_offsets = headers["base_offset"].astype(np.int64)
        self.last_offsets = self.base_offsets + headers["last_offset_delta"]
        self.attributes = headers["attributes"].astype(np.int64)
        self.counts = headers["records_count"].astype(np.int64)
        self.buffer = bodies.buffer
        self.records: RecordColumns
        self.unreadable: Flags
        self.records, self.unreadable = read_columns(self.buffer, bodies.bodies, headers)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def record_offsets(self) -> Numbers:
        """Of each record."""
        return self.base_offsets[self.records.batch] + self.records.offset_delta

    @property
    def size_bytes(self) -> int:
        """All batches together."""
        return int(self.sizes.sum())

    def batches(self, first: int, last: int) -> memoryview:
        """The bytes of batches that follow each other, the last one included."""
        end = int(self.starts[last] + self.sizes[last])
        return memoryview(self.data)[int(self.starts[first]) : end]

    def header(self, number: int) -> BatchHeader:
        """The header of one batch."""
        return BatchHeader._make(HEADER.unpack_from(self.data, int(self.starts[number])))


class PieceBodies:
    """The records of some batches, unpacked: in the bytes read, or in a buffer of their own if one
    of the batches is compressed."""

    def __init__(self, buffer: Bytes, bodies: Bodies) -> None:
        self.buffer = buffer
        self.bodies = bodies

    @classmethod
    def plain(cls, data: bytes, starts: Numbers, ends: Numbers) -> PieceBodies:
        """Of batches none of which is compressed."""
        buffer = np.frombuffer(data + _PADDING, np.uint8)
        return cls(buffer, Bodies(starts + HEADER_BYTES, ends))

    @classmethod
    def unpacked(cls, parts: Sequence[bytes | None]) -> PieceBodies:
        """``parts``: of each batch, None if it does not unpack."""
        buffer = np.frombuffer(b"".join([*filter(None, parts), _PADDING]), np.uint8)
        ends = np.cumsum([len(part or b"") for part in parts])
        begins = np.append(0, ends[:-1])
        is_missing = np.array([part is None for part in parts], np.bool_)
        return cls(buffer, Bodies(np.where(is_missing, -1, begins), ends))


class SegmentPieces:
    """The pieces of one segment's file. Raises DamagedSegment.

    Invariant: what was handed out ends before ``next_offset``, which is where the next batch may
    begin.
    """

    def __init__(self, file: File, base_offset: int, size_bytes: int, buffer_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._buffer_bytes = max(BUFFERS_READ * buffer_bytes, MIN_READ_BYTES)
        self._position = 0
        self.next_offset = base_offset
        self._end_offset = base_offset + OFFSETS_PER_SEGMENT

    def __iter__(self) -> Iterator[Piece]:
        wanted = self._buffer_bytes
        while self._position < self._size_bytes:
            left = self._size_bytes - self._position
            data = self._file.read(self._position, min(wanted, left))
            if len(data) < min(wanted, left):
                raise self._damaged(len(data), "the file ends here, before its batches do")
            starts, ends, needed = _whole_batches(data)
            if starts:
                yield from self._checked_pieces(data, starts, ends)
                self._position += ends[-1]
                wanted = self._buffer_bytes
            elif not len(data) < needed <= left or needed > MAX_BATCH_BYTES:
                raise self._damaged(0, "no whole batch begins here")
            else:
                wanted = needed

    def _checked_pieces(
        self, data: bytes, starts: list[int], ends: list[int]
    ) -> Iterator[Piece]:
        at = np.array(starts, np.int64)
        headers = headers_at(np.frombuffer(data, np.uint8), at)
        self._check_headers(starts, headers)
        view = memoryview(data)
        for start, end, crc in zip(starts, ends, headers["crc"].tolist(), strict=True):
            if crc32c(view[start + CRC_FROM : end]) != crc:
                raise self._damaged(start, "the CRC does not match")
        if not (headers["attributes"] & COMPRESSION_MASK).any():
            bodies = PieceBodies.plain(data, at, np.array(ends, np.int64))
            yield Piece(data, at, headers, bodies)
            return
        first = 0
        for unpacked in _unpacked_parts(view, starts, ends, headers["attributes"].tolist()):
            part = slice(first, first + len(unpacked))
            yield Piece(data, at[part], headers[part], PieceBodies.unpacked(unpacked))
            first += len(unpacked)

    def _check_headers(self, starts: list[int], headers: Headers) -> None:
        """Magic and offsets; the latter lie outside of the CRC, so this is their only check."""
        base = headers["base_offset"].astype(np.int64)
        delta = headers["last_offset_delta"].astype(np.int64)
        may_begin = np.append(self.next_offset, (base + delta + 1)[:-1])
        is_sound = (headers["magic"] == MAGIC) & (delta >= 0) & (headers["records_count"] >= 0)
        is_sound &= (base >= may_begin) & (base < self._end_offset)
        if not is_sound.all():
            number = int(is_sound.argmin())
            fault = f"a batch with offset {base[number]} cannot follow {may_begin[number] - 1}"
            raise self._damaged(starts[number], fault)
        self.next_offset = int(base[-1] + delta[-1] + 1)

    def _damaged(self, at: int, fault: str) -> DamagedSegment:
        return DamagedSegment(f"{self._file.path} at byte {self._position + at}: {fault}")


def _whole_batches(data: bytes) -> tuple[list[int], list[int], int]:
    """Where the whole batches of some bytes begin and end, and how many bytes the batch after them
    needs (at least a header's)."""
    starts: list[int] = []
    ends: list[int] = []
    at, stop = 0, len(data) - HEADER_BYTES
    needed = HEADER_BYTES
    while at <= stop:
        needed = _LENGTH(data, at + _LENGTH_AT)[0] + LENGTH_AND_OFFSET_BYTES
        if needed < HEADER_BYTES or at + needed > len(data):
            break
        starts.append(at)
        at += needed
        ends.append(at)
    return starts, ends, needed


def _unpacked_parts(
    view: memoryview, starts: list[int], ends: list[int], attributes: list[int]
) -> Iterator[list[bytes | None]]:
    """The unpacked records of the batches, so many of them at a time as memory allows."""
    part: list[bytes | None] = []
    size_bytes = 0
    for start, end, flags in zip(starts, ends, attributes, strict=True):
        body = _unpacked(flags & COMPRESSION_MASK, view[start + HEADER_BYTES : end])
        part.append(body)
        size_bytes += len(body or b"")
        if size_bytes >= UNPACKED_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _unpacked(codec: int, packed: memoryview) -> bytes | None:
    try:
        return decompress(codec, packed)
    except RecordsError:
        return None
