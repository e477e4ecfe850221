"""How a table of faces stands in its file. Pure.

The file: a header, then the sections in this order, each at a multiple of 64. `ROWS`: the features
as they are multiplied, 32-bit floats, one row a face in the order of the gallery; of a model that
is compared by cosine each of length 1. `SQUARES`: the squared length of each row. `LINES`: each
line in msgpack without its feature. `LINE_ENDS`: where each ends. `BY_ENTRY`: the places of the
lines in the order of their entries.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from alarm.lists.table_layout import HEADER_BYTES, TableError

MAGIC = b"databus faces 1\0"
SECTIONS = 5
ALIGNMENT = 64
_HEADER = struct.Struct(f"<16s32sQQ{2 * SECTIONS}Q")


class FaceTableHeader(NamedTuple):
    """`sections`: where each begins and how many bytes it has."""

    sha256: bytes
    lines: int
    dimensions: int
    sections: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Of the whole file."""
        begin, length = self.sections[-1]
        return begin + length

    def packed(self) -> bytes:
        """As it stands at the head of the file."""
        flat = [number for section in self.sections for number in section]
        packed = _HEADER.pack(MAGIC, self.sha256, self.lines, self.dimensions, *flat)
        return packed + bytes(HEADER_BYTES - _HEADER.size)


def face_header_of(head: bytes) -> FaceTableHeader:
    """Of the first `HEADER_BYTES` of a file. Raises `TableError`."""
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise TableError("is no table of faces of this version")
    _, sha256, lines, dimensions, *flat = _HEADER.unpack_from(head)
    return FaceTableHeader(
        sha256, lines, dimensions, tuple(zip(flat[::2], flat[1::2], strict=True))
    )
