"""Reads a request's body within its bounds and takes a multipart form apart. Never holds more than
the bound in memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from bus.contracts.keys import INLINE_PICTURES
from ingest.edge.batch_parser import MULTIPART

RECORD_PART = "record"
_BYTES = "latin-1"
_GZIP_OR_ZLIB = 47  # zlib finds out which of its two headers it is


class TooLarge(Exception):
    """The body passes its bound; it was not read to its end."""


class BadForm(Exception):
    """The multipart body is not what the contract says; both texts say how."""

    def __init__(self, text: str, text_zh: str) -> None:
        super().__init__(text)
        self.text_zh = text_zh


class UnknownEncoding(Exception):
    """A content encoding that is not unpacked here."""


class BadEncoding(Exception):
    """The body is not what its content encoding says; the text says how."""


@dataclass(frozen=True, slots=True)
class Form:
    """A record and the pictures beside it, by wire key."""

    record: bytes
    pictures: dict[str, bytes]


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body, unpacked; raises `TooLarge`, `UnknownEncoding`, `BadEncoding`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise TooLarge
    unpacker = _unpacker(request.headers.get("content-encoding", ""))
    chunks, size, packed = [], 0, 0
    async for chunk in request.stream():
        packed += len(chunk)
        data = unpacker.feed(chunk, max_bytes - size + 1) if unpacker else chunk
        size += len(data)
        if max(size, packed) > max_bytes:
            raise TooLarge
        chunks.append(data)
    if unpacker is not None:
        unpacker.end()
    return b"".join(chunks)


def _unpacker(encoding: str) -> Unpacker | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise UnknownEncoding(name[:40])
    return Unpacker(name)


class Unpacker:
    """gzip or deflate, never more bytes than asked for: a small body may unpack to a huge one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def feed(self, packed: bytes, most: int) -> bytes:
        """At most `most` bytes of what these unpack to; raises `BadEncoding`."""
        found: list[bytes] = []
        while packed and most > 0:
            if self._inflate.eof:  # a gzip body may have several members
                self._begin()
            try:
                data = self._inflate.decompress(packed, most)
            except zlib.error as error:
                raise BadEncoding(f"the body is no {self._name}: {error}") from error
            packed = self._inflate.unconsumed_tail or self._inflate.unused_data
            most -= len(data)
            found.append(data)
        return b"".join(found)

    def end(self) -> None:
        """Raise `BadEncoding` if the body ends in the middle."""
        if not self._inflate.eof:
            raise BadEncoding(f"the {self._name} body is cut off")

    def _begin(self) -> None:
        self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)


def _as_bytes(content_type: str) -> Headers:
    """The header of the same form in an encoding in which every byte is one character.

    The parser decodes text parts, by guess where they are not what their sender says; a record must
    come through as it was written, above all one that is not UTF-8. Raises `BadForm`.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"").decode(_BYTES)
    if not boundary or not boundary.isprintable() or set(boundary) & set('"\\'):
        raise BadForm("the multipart header names no boundary", "请求头没有可用的 boundary")
    return Headers({"content-type": f'{MULTIPART}; boundary="{boundary}"; charset={_BYTES}'})


async def read_form(request: Request, body: bytes) -> Form:
    """The parts of a multipart body; raises `BadForm`."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    headers = _as_bytes(request.headers.get("content-type", ""))
    # The parser leaves out a last part that is cut off, as if it had never been sent.
    if body and _last_line(headers) not in body:
        raise BadForm(
            "the form's end is missing: it was cut off, or its boundary is another one",
            "表单没有结束标记：内容被截断，或 boundary 不一致",
        )
    parser = MultiPartParser(
        headers, stream(), max_files=16, max_fields=4, max_part_size=len(body) + 1
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise BadForm(
            f"the multipart body cannot be read: {error}", f"无法解析：{error}"
        ) from error
    parts: dict[str, bytes] = {}
    for latin_name, part in form.multi_items():
        name = latin_name.encode(_BYTES).decode(errors="replace")
        if name != RECORD_PART and name not in INLINE_PICTURES:
            known = ", ".join([RECORD_PART, *INLINE_PICTURES])
            raise BadForm(
                f"unknown part {name!r}; known are {known}", f"未知的部分 {name!r}；可用：{known}"
            )
        if name in parts:
            raise BadForm(
                f"the part {name!r} stands there twice; a request has one of each",
                f"部分 {name!r} 出现了两次；每个请求只能有一个",
            )
        parts[name] = await part.read() if isinstance(part, UploadFile) else part.encode(_BYTES)
    record = parts.pop(RECORD_PART, None)
    if record is None:
        raise BadForm(
            f"the part {RECORD_PART!r} with the JSON record is missing",
            f"缺少包含 JSON 记录的部分 {RECORD_PART!r}",
        )
    return Form(record, parts)


def _last_line(headers: Headers) -> bytes:
    boundary = parse_options_header(headers["content-type"])[1][b"boundary"]
    return b"--" + boundary + b"--"
