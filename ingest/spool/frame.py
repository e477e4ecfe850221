"""How one message lies in a spool file: length, CRC32C, payload. Pure.

In: `SpoolEntry`s or bytes. Out: bytes or `SpoolEntry`s. Never: files.
The payload is self-describing msgpack, so that a spool written by one release drains under the
next.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c
import msgspec

_PREFIX = struct.Struct("<II")
PREFIX_BYTES = _PREFIX.size
# No message is larger (the edge's own limits are far below): a length above it is damage, not data.
MAX_FRAME_BYTES = 64 << 20


Slot = tuple[str, str, str, int]
"""Kind, device, server, minute (ms): where a message is counted."""


class SpoolEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message for the bus. `tally` is what it counts as (`vehicle/accepted`); `slot` is where
    it is counted. None: nowhere."""

    topic: str
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int
    tally: str
    slot: Slot | None = None


class _OnlySlot(msgspec.Struct, gc=False):
    """Of an entry; the rest is skipped."""

    slot: Slot | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(SpoolEntry)
_SLOTS = msgspec.msgpack.Decoder(_OnlySlot)


def frame(payload: bytes) -> bytes:
    """A payload with its length and checksum before it."""
    return _PREFIX.pack(len(payload), crc32c.crc32c(payload)) + payload


def encode(entry: SpoolEntry) -> bytes:
    """The frame of one message."""
    return frame(_ENCODER.encode(entry))


def decode(payload: bytes | memoryview) -> SpoolEntry:
    """The message of a payload whose checksum was right."""
    return _DECODER.decode(payload)


def decode_slot(payload: bytes | memoryview) -> Slot | None:
    """Of the same, only where it is counted: a fifth of the work."""
    return _SLOTS.decode(payload).slot


def payloads(data: bytes | memoryview, start: int = 0) -> Iterator[tuple[memoryview, int]]:
    """Whole and undamaged payloads with the offset after each; stops at the first torn or damaged
    one."""
    view, offset = memoryview(data), start
    while offset + PREFIX_BYTES <= len(view):
        length, checksum = _PREFIX.unpack_from(view, offset)
        end = offset + PREFIX_BYTES + length
        # A run of zeros (a file grown before its data came) is a frame of length 0: nothing we
        # write.
        if not 0 < length <= MAX_FRAME_BYTES or end > len(view):
            return
        payload = view[offset + PREFIX_BYTES : end]
        if crc32c.crc32c(payload) != checksum:
            return
        yield payload, end
        offset = end
