"""Reads a request's body within its bounds and takes a multipart form apart. Never holds more than
the bound in memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request

from bus.contracts.keys import INLINE_PICTURES
from ingest.edge.body_start import BodyStart
from ingest.normalise.foreign import maker_of
from ingest.normalise.multipart import BadForm, FormPart, boundary_of, parts_of
from ingest.pictures.names import extension

RECORD_PART = "record"
_RECORD_NAME = re.compile(rb'name="?record["\s;]')
_NAMELESS = "a part without a name", "没有名称的部分"
_SEEN_BYTES = 64
_GZIP_OR_ZLIB = 47  # zlib finds out which of its two headers it is


class TooLarge(Exception):
    """The body passes its bound; it was not read to its end."""


class ForeignForm(Exception):
    """A multipart body in the shape of another maker's interface."""

    def __init__(self, maker: str) -> None:
        super().__init__(maker)
        self.maker = maker


class UnknownEncoding(Exception):
    """A content encoding that is not unpacked here."""


class BadEncoding(Exception):
    """The body is not what its content encoding says; the text says how."""


@dataclass(frozen=True, slots=True)
class Form:
    """A record and the pictures beside it, by wire key."""

    record: bytes
    pictures: dict[str, bytes]


async def read_body(request: Request, max_bytes: int, start: BodyStart | None = None) -> bytes:
    """The whole body, unpacked; raises `TooLarge`, `UnknownEncoding`, `BadEncoding`. `start` sees
    what is read of it, for the case that it is refused."""
    start = start or BodyStart()
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise TooLarge
    unpacker = _unpacker(request.headers.get("content-encoding", ""))
    chunks, size, packed = [], 0, 0
    async for chunk in request.stream():
        packed += len(chunk)
        start.feed(chunk)
        data = unpacker.feed(chunk, max_bytes - size + 1) if unpacker else chunk
        size += len(data)
        if max(size, packed) > max_bytes:
            raise TooLarge
        chunks.append(data)
    if unpacker is not None:
        unpacker.end()
    body = b"".join(chunks)
    start.set(body)
    return body


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


def form_of(body: bytes, content_type: str) -> Form:
    """The record and the pictures of a multipart body; raises `BadForm`, `ForeignForm`."""
    try:
        return _form(parts_of(body, boundary_of(content_type)))
    except BadForm as error:
        maker = "" if _RECORD_NAME.search(body) else maker_of(body)
        if not maker:
            raise
        raise ForeignForm(maker) from error


def _form(parts: Iterable[FormPart]) -> Form:
    found: dict[str, bytes] = {}
    for part in parts:
        if part.name != RECORD_PART and part.name not in INLINE_PICTURES:
            raise _unknown_part(part)
        if part.name in found:
            raise BadForm(
                f"the part {part.name!r} stands there twice; a request has one of each",
                f"部分 {part.name!r} 出现了两次；每个请求只能有一个",
            )
        found[part.name] = part.data
    record = found.pop(RECORD_PART, None)
    if record is None:
        raise BadForm(
            f"the part {RECORD_PART!r} with the JSON record is missing",
            f"缺少包含 JSON 记录的部分 {RECORD_PART!r}",
        )
    return Form(record, found)


def _unknown_part(part: FormPart) -> BadForm:
    """What the part seems to be, and what it should be named."""
    name, pictures = part.name[:80], ", ".join(INLINE_PICTURES)
    called, called_zh = (f"part {name!r}", f"部分 {name!r}") if name else _NAMELESS
    if part.content_type.lower().startswith("multipart/"):
        return BadForm(
            f"{called} is a form of its own; parts within parts are not read",
            f"{called_zh}是嵌套的表单；不读取嵌套的部分",
        )
    start = part.data[:_SEEN_BYTES].lstrip()
    if extension(part.data) != "bin":
        what = f"is a picture; beside {RECORD_PART!r}, pictures are named one of {pictures}"
        what_zh = f"是图片；除 {RECORD_PART!r} 外，图片部分的名称应为：{pictures}"
    elif start[:1] in (b"{", b"["):
        what = f"is JSON; the record's part is named {RECORD_PART!r}"
        what_zh = f"是 JSON；记录部分的名称应为 {RECORD_PART!r}"
    elif start[:1] == b"<":
        what, what_zh = "is XML; a record is JSON", "是 XML；记录必须是 JSON"
    else:
        known = ", ".join([RECORD_PART, *INLINE_PICTURES])
        what, what_zh = f"is not known; known are {known}", f"未知；可用：{known}"
    return BadForm(f"{called} {what}", f"{called_zh}{what_zh}")


def body_start(request: Request) -> BodyStart:
    """What has been read of this request's body."""
    if not hasattr(request.state, "body_start"):
        request.state.body_start = BodyStart()
    start: BodyStart = request.state.body_start
    return start
