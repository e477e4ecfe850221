"""What every generated function stands on: varints, tagged fields, the one error of the codec.

In: buffers and offsets. Out: values and offsets, or chunks.
Never: a message's own layout. Garbage raises ProtocolError and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Protocol, TypeVar

import msgspec

from bus.errors import BusError, ErrorCode
from bus.limits import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS, MAX_VARINT_BYTES

Buffer = bytes | bytearray | memoryview
Write = Callable[[Buffer], object]

NO_UUID = bytes(16)

ResponseT = TypeVar("ResponseT", bound=msgspec.Struct)
ResponseOf = TypeVar("ResponseOf", bound=msgspec.Struct, covariant=True)


class RequestMessage(Protocol[ResponseOf]):
    """A generated request: it says what answers it, so that the answer has its type."""

    def response_type(self) -> type[ResponseOf]:
        """The class of the response."""


BYTE: tuple[bytes, ...] = tuple(bytes([value]) for value in range(128))
"""One-byte varints."""


class ProtocolError(BusError):
    """Bytes that are not the message they should be: the peer is wrong, its connection closes."""

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(code, detail)


GARBAGE = (StructError, IndexError, ValueError, OverflowError)
"""What reading past the end, or bytes that are no UTF-8, raises inside a decoder."""


def broken(message: str, error: Exception) -> ProtocolError:
    """The ProtocolError for a `GARBAGE` exception."""
    return ProtocolError(f"{message} cannot be read: {error}")


def past_the_end(message: str) -> ProtocolError:
    """For a length that leads beyond the buffer."""
    return ProtocolError(f"{message} cannot be read: it ends beyond its frame")


def null_not_allowed(field: str) -> ProtocolError:
    """For a null where the protocol allows none."""
    return ProtocolError(f"{field} may not be null")


def array_too_long(field: str, length: int) -> ProtocolError:
    """For an array that claims more elements than bytes are left, or than any message has."""
    known = length <= MAX_ARRAY_ELEMENTS
    limit = "its frame can hold" if known else f"the {MAX_ARRAY_ELEMENTS} allowed"
    return ProtocolError(f"{field} claims {length} elements, more than {limit}")


def too_many_tags(message: str, count: int) -> ProtocolError:
    """For a section of tagged fields that claims more of them than any message has."""
    return ProtocolError(
        f"{message} claims {count} tagged fields, more than the {MAX_TAGGED_FIELDS} allowed"
    )


def wrong_tag_size(field: str) -> ProtocolError:
    """For a tagged field whose content does not have the size it claims."""
    return ProtocolError(f"tagged field {field} does not have the size it claims")


def read_uvarint(buf: Buffer, at: int) -> tuple[int, int]:
    """(unsigned varint, next offset)."""
    byte = buf[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift >= 7 * MAX_VARINT_BYTES:
            raise ProtocolError("a varint of more than five bytes")
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at


def read_length(buf: Buffer, at: int) -> tuple[int, int]:
    """(length, next offset) of a compact string, bytes or array; -1 is null."""
    value, at = read_uvarint(buf, at)
    return value - 1, at


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buf: Buffer, at: int) -> int:
    """The offset after a section of tagged fields that are all unknown to us."""
    count, at = read_uvarint(buf, at)
    if count > MAX_TAGGED_FIELDS:
        raise too_many_tags("a message", count)
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at += size
        if at > len(buf):
            raise past_the_end("a tagged field")
    return at


def write_tags(write: Write, tags: list[tuple[int, list[Buffer]]]) -> None:
    """Write the section of tagged fields; each is its tag and its chunks, sorted by tag."""
    write(uvarint(len(tags)))
    for tag, chunks in tags:
        write(uvarint(tag))
        write(uvarint(sum(map(len, chunks))))
        for chunk in chunks:
            write(chunk)
