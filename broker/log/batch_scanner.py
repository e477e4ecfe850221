"""Scans the batches of a log file by their headers.

In: a file and a range of it. Out: position, header and bytes of each valid batch, and why the scan
ended. Never: more than a chunk (or one batch, if that is larger) in memory; never an exception for
damaged bytes, because recovery expects a partial batch at the end of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from crc32c import crc32c

from bus.limits import MAX_BATCH_BYTES
from bus.records.batch import (
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    BatchHeader,
)

NO_CRC = 1 << 63
"""As ``crc_from``: check no CRC; the range was flushed or closed cleanly."""

OFFSETS_PER_SEGMENT = (1 << 31) - 1
"""Indexes have four bytes for an offset, of which Kafka uses 31 bits."""

CHUNK_BYTES = 1 << 20
"""Read at once while scanning: large enough that system calls do not matter."""

_make = BatchHeader._make
_unpack = HEADER.unpack_from


class ScannedBatch(NamedTuple):
    """One batch of the scan; ``data`` is a view that is valid until the next step."""

    position: int
    header: BatchHeader
    data: memoryview


def is_plausible_header(header: BatchHeader) -> bool:
    """Whether these 61 bytes can be the header of a v2 batch."""
    return (
        header.magic == MAGIC
        and HEADER_BYTES <= header.batch_length + LENGTH_AND_OFFSET_BYTES <= MAX_BATCH_BYTES
        and header.last_offset_delta >= 0
        and header.base_offset >= 0
    )


class Readable(Protocol):
    """A file, or a segment's bytes."""

    def read(self, position: int, size: int, /) -> bytes | bytearray: ...


class BatchScanner:
    """Iterates over the whole, valid batches of ``file[position:end]`` in their order.

    After the iteration ``position`` is the end of the last valid batch; if that is before ``end``,
    ``fault`` says what is wrong there. The CRC is checked from offset ``crc_from`` on. Invariant:
    base offsets rise, each above the last one's end, and fit into a segment that begins at
    ``base_offset`` (they lie outside the CRC, so this is the only check of them there is).
    """

    def __init__(
        self, file: Readable, position: int, end: int, *, base_offset: int, crc_from: int
    ) -> None:
        self.position = position
        self.fault = ""
        self._file = file
        self._end = end
        self._crc_from = crc_from
        self._next_offset = base_offset
        self._end_offset = base_offset + OFFSETS_PER_SEGMENT
        self._chunk = memoryview(b"")
        self._chunk_at = position

    def __iter__(self) -> Iterator[ScannedBatch]:
        while self.position < self._end:
            found = self._next_batch()
            if found is None:
                return
            yield found
            self.pass_over(found)

    def pass_over(self, found: ScannedBatch) -> None:
        """Go on behind a batch; for who begins another iteration after an error of the file."""
        self.position += found.header.batch_length + LENGTH_AND_OFFSET_BYTES
        self._next_offset = found.header.base_offset + found.header.last_offset_delta + 1

    def _next_batch(self) -> ScannedBatch | None:
        head = self._bytes(HEADER_BYTES)
        if head is None:
            return self._fail("the file ends inside a batch header")
        header = _make(_unpack(head))
        if not is_plausible_header(header):
            return self._fail("these bytes are no batch header")
        if not self._next_offset <= header.base_offset < self._end_offset:
            return self._fail(f"offset {header.base_offset} cannot follow {self._next_offset - 1}")
        data = self._bytes(header.batch_length + LENGTH_AND_OFFSET_BYTES)
        if data is None:
            return self._fail("the file ends inside a batch")
        if header.base_offset >= self._crc_from and crc32c(data[CRC_FROM:]) != header.crc:
            return self._fail("the CRC does not match")
        return ScannedBatch(self.position, header, data)

    def _fail(self, fault: str) -> ScannedBatch | None:
        self.fault = fault
        return None

    def _bytes(self, size: int) -> memoryview | None:
        """``size`` bytes at the present position, from the chunk or from a new one."""
        at = self.position - self._chunk_at
        if at + size > len(self._chunk):
            wanted = min(max(size, CHUNK_BYTES), self._end - self.position)
            self._chunk = memoryview(self._file.read(self.position, wanted))
            self._chunk_at, at = self.position, 0
        if at + size > len(self._chunk):
            return None
        return self._chunk[at : at + size]
