"""RTSP messages and the RTP packets between them on one TCP connection (RFC 2326, 10.12). Pure.

In: bytes as they come. Out: responses, requests of the server, interleaved packets. Raises
`RtspError` for anything else. Never: a socket; more than `MAX_HEAD_BYTES` and `MAX_BODY_BYTES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024
INTERLEAVED = 0x24
_VERSION = "RTSP/1.0"


class RtspError(Exception):
    """The other end speaks no RTSP that is understood, or refuses. The text holds no secret."""


@dataclass(frozen=True, slots=True)
class RtspResponse:
    """`headers` by their lower-case names, all values of a name in their order."""

    status: int
    reason: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes = b""

    def header(self, name: str) -> str:
        """The first value; empty where there is none."""
        return next(iter(self.headers.get(name, ())), "")


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What a server may ask of its client (RFC 2326 allows OPTIONS, ANNOUNCE and others)."""

    method: str
    sequence: str


@dataclass(frozen=True, slots=True)
class InterleavedPacket:
    """An RTP or RTCP packet, by the number of its channel."""

    channel: int
    data: bytes


RtspMessage = RtspResponse | ServerRequest | InterleavedPacket


def request_bytes(method: str, url: str, sequence: int, headers: Mapping[str, str]) -> bytes:
    """A request as it goes over the line. Raises `RtspError` for a line break in a part of it."""
    lines = [f"{method} {url} {_VERSION}", f"CSeq: {sequence}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise RtspError("a line break in a request")
    return "\r\n".join([*lines, "", ""]).encode()


def refusal_bytes(request: ServerRequest) -> bytes:
    """The answer to whatever a server asks: not implemented here."""
    return f"{_VERSION} 501 Not Implemented\r\nCSeq: {request.sequence}\r\n\r\n".encode()


@dataclass(slots=True)
class RtspDecoder:
    """Cuts a stream of bytes. Invariant: `_held` is less than one whole message."""

    _held: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[RtspMessage]:
        """The messages that are whole now. Raises `RtspError`; then the stream is of no use."""
        self._held += data
        found: list[RtspMessage] = []
        at = 0
        while at < len(self._held):
            parsed = _packet(self._held, at) if self._held[at] == INTERLEAVED else (
                _message(self._held, at)
            )
            if parsed is None:
                break
            message, at = parsed
            found.append(message)
        del self._held[:at]
        return found


def _packet(held: bytearray, at: int) -> tuple[RtspMessage, int] | None:
    if len(held) < at + 4:
        return None
    end = at + 4 + int.from_bytes(held[at + 2 : at + 4], "big")
    if len(held) < end:
        return None
    return InterleavedPacket(held[at + 1], bytes(memoryview(held)[at + 4 : end])), end


def _message(held: bytearray, at: int) -> tuple[RtspMessage, int] | None:
    end = held.find(b"\r\n\r\n", at, at + MAX_HEAD_BYTES)
    if end < 0:
        if len(held) - at >= MAX_HEAD_BYTES:
            raise RtspError(f"no end of a message within {MAX_HEAD_BYTES} bytes")
        return None
    first, headers = _head(bytes(held[at:end]))
    length = _content_length(headers)
    body_at = end + 4
    if len(held) < body_at + length:
        return None
    body = bytes(held[body_at : body_at + length])
    return _of_first_line(first, headers, body), body_at + length


def _head(data: bytes) -> tuple[str, dict[str, tuple[str, ...]]]:
    first, *lines = data.decode("utf-8", "replace").split("\r\n")
    headers: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise RtspError("a header without a colon")
        key = name.strip().lower()
        headers[key] = (*headers.get(key, ()), value.strip())
    return first, headers


def _content_length(headers: Mapping[str, tuple[str, ...]]) -> int:
    text = next(iter(headers.get("content-length", ())), "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > 6 or int(text) > MAX_BODY_BYTES:
        raise RtspError(f"Content-Length: none of 0 to {MAX_BODY_BYTES}")
    return int(text)


def _of_first_line(
    first: str, headers: Mapping[str, tuple[str, ...]], body: bytes
) -> RtspMessage:
    words = first.split(" ", 2)
    if len(words) < 2:
        raise RtspError("a first line of fewer than two words")
    if words[0] == _VERSION:
        status = words[1]
        if len(status) != 3 or not (status.isascii() and status.isdecimal()):
            raise RtspError("a response without a status")
        return RtspResponse(int(status), words[2] if len(words) > 2 else "", headers, body)
    if len(words) == 3 and words[2] == _VERSION:
        return ServerRequest(words[0], next(iter(headers.get("cseq", ())), "0"))
    raise RtspError("neither RTSP/1.0 nor a packet: is this an RTSP port?")
