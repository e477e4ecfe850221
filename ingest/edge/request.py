"""Reads a request's body within its bounds, and takes a multipart form apart.

In: a Starlette request. Out: bytes, or the record part and its pictures. Never: more memory than
the bound.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from bus.contracts.keys import INLINE_PICTURES

RECORD_PART = "record"


class TooLarge(Exception):
    """The body passes its bound; it was not read to its end."""


class BadForm(Exception):
    """The multipart body is not what the contract says; the text says how."""


@dataclass(frozen=True, slots=True)
class Form:
    """A record and the pictures beside it, by wire key."""

    record: bytes
    pictures: dict[str, bytes]


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body; raises `TooLarge`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise TooLarge
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


async def read_form(request: Request, body: bytes) -> Form:
    """The parts of a multipart body; raises `BadForm`."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(
        request.headers, stream(), max_files=16, max_fields=4, max_part_size=len(body) + 1
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise BadForm(f"the multipart body cannot be read: {error}") from error
    record, pictures = None, {}
    for name, part in form.multi_items():
        data = await part.read() if isinstance(part, UploadFile) else part.encode()
        if name == RECORD_PART:
            record = data
        elif name in INLINE_PICTURES:
            pictures[name] = data
        else:
            known = ", ".join([RECORD_PART, *INLINE_PICTURES])
            raise BadForm(f"unknown part {name!r}; known are {known}")
    if record is None:
        raise BadForm(f"the part {RECORD_PART!r} with the JSON record is missing")
    return Form(record, pictures)
