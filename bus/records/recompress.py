"""A batch packed with another codec, as the leader of a topic with `compression.type` does.

In: one whole batch, a codec, a level. Out: the same records under the same header, repacked.
Never: a record looked at; offsets, times, producer and sequence stay as they are. Raises
RecordsError where the records do not unpack.
"""

from __future__ import annotations

from struct import Struct

from bus.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    BatchHeader,
    Buffer,
    seal,
)
from bus.records.compression import compress, decompress

_LENGTH_AT, _LENGTH = 8, Struct(">i")
_ATTRIBUTES_AT, _ATTRIBUTES = 21, Struct(">h")


def recompressed(batch: Buffer, header: BatchHeader, codec: int, level: int | None) -> bytearray:
    """The batch at the beginning of `batch`; `level` None: the codec's own."""
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    body = compress(codec, decompress(header.compression, packed), level)
    made = bytearray(HEADER_BYTES + len(body))
    made[:HEADER_BYTES] = memoryview(batch)[:HEADER_BYTES]
    made[HEADER_BYTES:] = body
    _LENGTH.pack_into(made, _LENGTH_AT, len(made) - LENGTH_AND_OFFSET_BYTES)
    _ATTRIBUTES.pack_into(made, _ATTRIBUTES_AT, header.attributes & ~COMPRESSION_MASK | codec)
    seal(made, 0, len(made))
    return made
