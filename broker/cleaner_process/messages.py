"""What goes over the pipe between the broker and its child process, a line of JSON each.

In: bytes of a pipe. Out: structs, or MessageError. Never: what a request or a report says; that is
JSON inside of JSON here.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from broker.cleaner_process.port import FailureKind

MAX_LINE_BYTES = 64 << 20
"""A request names every segment of a log and every producer (some 100 bytes each), and no log has
more of them than this holds. The broker and its child refuse a longer line."""

Message = TypeVar("Message")
Number = Annotated[int, Meta(ge=0)]


class MessageError(ValueError):
    """These bytes are no message."""


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Begin a request under this number."""

    number: Number
    request: Raw


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Nobody wants the rest of that request."""

    number: Number


class RateRequest(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """All requests together read and write no more bytes in a second."""

    bytes_per_second: Annotated[float, Meta(gt=0)]


class RequestReport(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """A request has got somewhere."""

    number: Number
    body: Raw


class RequestEnd(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """The end of a request; ``kind`` says why it ended early."""

    number: Number
    kind: FailureKind | None = None
    text: str = ""


Order = RunRequest | CancelRequest | RateRequest
Answer = RequestReport | RequestEnd

_ORDER: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
_ANSWER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode(message: Order | Answer) -> bytes:
    """The line of a message, with its end."""
    return msgspec.json.encode(message) + b"\n"


def order_of(line: bytes) -> Order:
    """What the broker wants."""
    return _decoded(_ORDER, line)


def answer_of(line: bytes) -> Answer:
    """What the child has to say."""
    return _decoded(_ANSWER, line)


def _decoded(decoder: msgspec.json.Decoder[Message], line: bytes) -> Message:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(str(error)) from None
