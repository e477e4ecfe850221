"""Frames, both ends: header and body of requests and responses, with the four length bytes.

In: a frame without its length (as a connection delivers it) or a message. Out: header and message,
or chunks that begin with the length. Broker, peer links, mirror and tests use the same functions.
Never: sockets, and never a copy of record bytes: chunks of COALESCE_BELOW_BYTES and more are handed
on as they are, smaller neighbours are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from bus.errors import ErrorCode
from bus.protocol.apis import API_VERSIONS, APIS, Decode, Encode, api
from bus.protocol.wire import Buffer, ProtocolError, skip_tags

COALESCE_BELOW_BYTES: Final = 2048
"""Copying this much costs less than one more entry in a vectored write."""

LENGTH = Struct(">i")
_REQUEST_HEADER = Struct(">hhi")
_CLIENT_ID_LENGTH = Struct(">h")
_CORRELATION_ID = Struct(">i")
_NO_TAGS = b"\x00"

_CLIENTS = 256
"""Client ids whose request headers are kept made; a process calls itself a few names."""


_HEADER_VERSIONS: dict[tuple[int, int], int] = {
    (info.key, version): info.request_header_version(version)
    for info in APIS.values()
    for version in range(info.first_version, info.last_version + 1)
}


class RequestHeader(NamedTuple):
    """The header of a request. `client_id` is None where the client sent null or none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header(buf: Buffer) -> tuple[RequestHeader, int]:
    """The header and the offset of the body.

    Of an API or version that the tables do not have, only the first eight bytes are read; that is
    enough to answer ApiVersions with UNSUPPORTED_VERSION, and the offset is then the buffer's end.
    """
    try:
        key, version, correlation_id = _REQUEST_HEADER.unpack_from(buf, 0)
    except StructError:
        raise ProtocolError(f"{len(buf)} bytes are no request") from None
    header_version = _HEADER_VERSIONS.get((key, version))
    if header_version is None:
        return RequestHeader(key, version, correlation_id, None), len(buf)
    at = _REQUEST_HEADER.size
    if header_version == 0:
        return RequestHeader(key, version, correlation_id, None), at
    client_id, at = _client_id(buf, at)
    if header_version == 2:
        at = _tags(buf, at)
    return RequestHeader(key, version, correlation_id, client_id), at


def _client_id(buf: Buffer, at: int) -> tuple[str | None, int]:
    try:
        (length,) = _CLIENT_ID_LENGTH.unpack_from(buf, at)
        at += _CLIENT_ID_LENGTH.size
        if length < 0:
            return None, at
        if at + length > len(buf):
            raise ProtocolError("the client id ends beyond its frame")
        return str(buf[at : at + length], "utf-8"), at + length
    except (StructError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the client id cannot be read: {error}") from None


def _tags(buf: Buffer, at: int) -> int:
    try:
        return skip_tags(buf, at) if buf[at] else at + 1
    except IndexError:
        raise ProtocolError("the header ends beyond its frame") from None


def decode_request(buf: Buffer) -> tuple[RequestHeader, Any]:
    """Header and request of a whole frame. Bytes after the body are tolerated, as Kafka does.

    Raises ProtocolError: UNSUPPORTED_VERSION for what is not in the tables, else INVALID_REQUEST.
    """
    header, at = request_header(buf)
    request, _ = api(header.api_key).request_decoder(header.api_version)(buf, at)
    return header, request


def encode_request(
    key: int, version: int, correlation_id: int, client_id: str | None, request: Any
) -> list[Buffer]:
    """The chunks of a request, length first."""
    header_rest, encode = _request_form(key, version, client_id)
    chunks: list[Buffer] = [_REQUEST_HEADER.pack(key, version, correlation_id), header_rest]
    encode(request, chunks.append)
    return framed(chunks)


@lru_cache(_CLIENTS)
def _request_form(key: int, version: int, client_id: str | None) -> tuple[bytes, Encode]:
    """What follows the correlation id in a request's header, and the encoder of its body."""
    info = api(key)
    header_version = info.request_header_version(version)
    rest = b""
    if header_version > 0 and client_id is None:
        rest = _CLIENT_ID_LENGTH.pack(-1)
    elif header_version > 0 and client_id is not None:
        text = client_id.encode()
        rest = _CLIENT_ID_LENGTH.pack(len(text)) + text
    if header_version > 1:
        rest += _NO_TAGS
    return rest, info.request_encoder(version)


def encode_response(key: int, version: int, correlation_id: int, response: Any) -> list[Buffer]:
    """The chunks of a response, length first."""
    has_tags, encode, _ = _response_form(key, version)
    chunks: list[Buffer] = [_CORRELATION_ID.pack(correlation_id)]
    if has_tags:
        chunks.append(_NO_TAGS)
    encode(response, chunks.append)
    return framed(chunks)


@cache
def _response_form(key: int, version: int) -> tuple[bool, Encode, Decode]:
    """Whether a response's header has tags, and the codec of its body."""
    info = api(key)
    has_tags = info.response_header_version(version) > 0
    return has_tags, info.response_encoder(version), info.response_decoder(version)


def decode_response(key: int, version: int, buf: Buffer) -> tuple[int, Any]:
    """(correlation id, response) of a whole frame whose request had this key and version.

    An ApiVersions answer of version 0 with UNSUPPORTED_VERSION, which a broker gives to a version
    it does not know, is read as such.
    """
    has_tags, _, decode = _response_form(key, version)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buf, 0)
    except StructError:
        raise ProtocolError(f"{len(buf)} bytes are no response") from None
    at = _CORRELATION_ID.size
    if has_tags:
        at = _tags(buf, at)
    if key == API_VERSIONS and version and buf[at : at + 2] == _UNSUPPORTED:
        decode = api(key).response_decoder(0)
    response, _ = decode(buf, at)
    return correlation_id, response


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def framed(chunks: Sequence[Buffer]) -> list[Buffer]:
    """Chunks with the frame's length in front, small neighbours joined, large ones untouched."""
    total = sum(map(len, chunks))
    if total < COALESCE_BELOW_BYTES or max(map(len, chunks)) < COALESCE_BELOW_BYTES:
        return [b"".join((LENGTH.pack(total), *chunks))]
    joined: list[Buffer] = []
    small: list[Buffer] = [LENGTH.pack(total)]
    for chunk in chunks:
        if len(chunk) < COALESCE_BELOW_BYTES:
            small.append(chunk)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(chunk)
    if small:
        joined.append(b"".join(small))
    return joined
