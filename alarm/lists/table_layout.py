"""How a table of lines stands in its file. Pure.

The file: a header, then the sections in this order, each at a multiple of 8. `LINES`: each line in
msgpack, in the order of the list. `LINE_ENDS`: where each ends. `BUCKETS`, `PRINTS`, `PLACES`: an
index by the hash of the folded plate; the bucket is the hash's first bits and has the entries from
`BUCKETS[bucket]` to `BUCKETS[bucket + 1]`, each with the hash's other bits and the line's place.
`NEAR_BUCKETS`, `NEAR_PRINTS`, `NEAR_PLACES`: the same of each plate and of what is left of it
without one character; empty in a table that is not asked for distances.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from alarm.lists.plate_hash import BITS

MAGIC = b"databus plates 1"
_HEADER = struct.Struct("<16s32s4Q16Q")
HEADER_BYTES = 512
_MARGIN = HEADER_BYTES - _HEADER.size


class TableError(Exception):
    """A file that is no table, or not the one that is meant; what to do stands in its text."""


class TableHeader(NamedTuple):
    """`sections`: where each begins and how many bytes it has. `bucket_bits`, `near_bits`: how many
    bits of a hash are the bucket."""

    sha256: bytes
    lines: int
    bucket_bits: int
    near_bits: int
    sections: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Of the whole file."""
        begin, length = self.sections[-1]
        return begin + length

    def packed(self) -> bytes:
        """As it stands at the head of the file."""
        flat = [number for section in self.sections for number in section]
        packed = _HEADER.pack(
            MAGIC, self.sha256, self.lines, self.bucket_bits, self.near_bits, self.size, *flat
        )
        return packed + bytes(_MARGIN)


def header_of(head: bytes) -> TableHeader:
    """Of the first `HEADER_BYTES` of a file. Raises `TableError`."""
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise TableError("is no table of plates of this version")
    _, sha256, lines, bucket_bits, near_bits, _, *flat = _HEADER.unpack_from(head)
    return TableHeader(
        sha256, lines, bucket_bits, near_bits, tuple(zip(flat[::2], flat[1::2], strict=True))
    )


def bits_for(entries: int, per_bucket: int) -> int:
    """How many bits of a hash are the bucket, so that one has about as many entries."""
    return max(1, min(BITS - 1, (max(1, entries) // per_bucket).bit_length()))
