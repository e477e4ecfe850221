"""Signed (zig-zag) varints, as the records inside a batch use them. Unsigned ones: `protocol.wire`.

Never: more than ten bytes; a longer varint raises RecordsError before a huge integer is built.
"""

from __future__ import annotations

from bus.errors import ErrorCode
from bus.limits import MAX_VARLONG_BYTES
from bus.records.batch import Buffer, RecordsError


def zigzag(value: int) -> bytes:
    """The bytes of a signed 64-bit integer."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def zagzig(buf: Buffer, offset: int) -> tuple[int, int]:
    """(value, next offset). IndexError past the end, RecordsError on too long a varint."""
    byte = buf[offset]
    offset += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), offset
    raw = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift >= 7 * MAX_VARLONG_BYTES:
            raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "a varint of more than ten bytes")
        byte = buf[offset]
        offset += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), offset
