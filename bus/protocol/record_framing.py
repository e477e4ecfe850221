"""How persisted messages are framed inside a record: which message, which version, then its bytes.

Two families:
- records of `__cluster_metadata`: frame version, type and version of the record, each as a varint;
- keys and values of `__consumer_offsets` and `__transaction_state`: a version as int16; of a key it
  is at the same time the type.

In: bytes or messages of `bus.protocol.generated.*_records`. Out: messages or bytes.
Raises ProtocolError for garbage, with UNSUPPORTED_VERSION for types or versions of a later Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, TypeVar

from bus.errors import ErrorCode
from bus.protocol.generated import metadata_records
from bus.protocol.wire import GARBAGE, Buffer, ProtocolError, Write, broken, read_uvarint, uvarint

_FRAME_VERSION = 1
_VERSION = Struct(">h")

Message = TypeVar("Message")
Decoders = Mapping[int, Callable[[Buffer, int], tuple[Message, int]]]
Encoders = Mapping[int, Callable[[Message, Write], None]]
Keys = Mapping[int, tuple[type[Any], Decoders[Any], Encoders[Any]]]

_TYPE_OF: dict[type, int] = {row[0]: key for key, row in metadata_records.RECORDS.items()}


def encode_metadata_record(record: Any, version: int) -> bytes:
    """The value of a `__cluster_metadata` record."""
    kind = _TYPE_OF[type(record)]
    chunks: list[Buffer] = [uvarint(_FRAME_VERSION), uvarint(kind), uvarint(version)]
    metadata_records.RECORDS[kind][2][version](record, chunks.append)
    return b"".join(chunks)


def decode_metadata_record(value: Buffer) -> tuple[Any, int]:
    """(record, its version) from the value of a `__cluster_metadata` record."""
    try:
        frame, at = read_uvarint(value, 0)
        kind, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
    except GARBAGE as error:
        raise broken("a metadata record", error) from None
    if frame != _FRAME_VERSION:
        raise _unsupported(f"metadata frame version {frame}")
    row = metadata_records.RECORDS.get(kind)
    if row is None or version not in row[1]:
        raise _unsupported(f"metadata record type {kind} version {version}")
    record, at = row[1][version](value, at)
    if at != len(value):
        raise ProtocolError(f"{len(value) - at} bytes after a metadata record")
    return record, version


def encode_versioned(message: Message, version: int, encoders: Encoders[Message]) -> bytes:
    """A key or value of a coordinator's log: the version, then the message."""
    chunks: list[Buffer] = [_VERSION.pack(version)]
    encoders[version](message, chunks.append)
    return b"".join(chunks)


def decode_versioned(buf: Buffer, decoders: Decoders[Message]) -> tuple[Message, int]:
    """(message, its version) of such a value."""
    version = version_of(buf)
    decoder = decoders.get(version)
    if decoder is None:
        raise _unsupported(f"version {version} of a coordinator record")
    message, _ = decoder(buf, _VERSION.size)
    return message, version


def encode_key(kind: int, message: Message, encoders: Encoders[Message]) -> bytes:
    """A coordinator's key: its type stands where other messages have their version."""
    chunks: list[Buffer] = [_VERSION.pack(kind)]
    encoders[0](message, chunks.append)
    return b"".join(chunks)


def decode_key(buf: Buffer, keys: Keys) -> tuple[Any, int]:
    """(key, its type) of a coordinator's record, from the table KEYS of its module."""
    kind = version_of(buf)
    row = keys.get(kind)
    if row is None:
        raise _unsupported(f"type {kind} of a coordinator record")
    key, _ = row[1][0](buf, _VERSION.size)
    return key, kind


def version_of(buf: Buffer) -> int:
    """The leading int16: the version of a value, the type of a key."""
    try:
        return int(_VERSION.unpack_from(buf, 0)[0])
    except StructError:
        raise ProtocolError("a coordinator record without a version") from None


def _unsupported(what: str) -> ProtocolError:
    return ProtocolError(f"{what} is not known here", ErrorCode.UNSUPPORTED_VERSION)
