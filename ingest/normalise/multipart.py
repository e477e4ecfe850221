"""A multipart form taken apart, byte for byte. Pure.

In: a body and its boundary. Out: the parts as they were written. Raises `BadForm` and nothing else.
Never: decoding a part; an opinion on what a part is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:  # the parser has this name for type checkers only
    from python_multipart.multipart import MultipartCallbacks

MULTIPART = "multipart/form-data"
MAX_PARTS = 32  # our own form has six, those of makers up to a dozen
MAX_BOUNDARY_BYTES = 70  # RFC 2046
_SEARCHED_BYTES = 4096
# A line of two hyphens and more, and after it a header or the next line of an empty part.
_FIRST_LINE = re.compile(rb"(?:^|\n)--([^\r\n]{1,70}?)[ \t]*\r?\n(?=[A-Za-z][A-Za-z-]*:|\r?\n)")
_BYTES = "latin-1"


class BadForm(Exception):
    """The multipart body is not what the contract says; both texts say how."""

    def __init__(self, text: str, text_zh: str) -> None:
        super().__init__(text)
        self.text_zh = text_zh


class FormPart(NamedTuple):
    """One part; what its headers do not say is empty."""

    name: str
    filename: str
    content_type: str
    data: bytes


def boundary_of(content_type: str) -> bytes:
    """What the request's header names. Raises `BadForm`."""
    try:
        found = parse_options_header(content_type)[1].get(b"boundary", b"")
    except (ValueError, IndexError, KeyError) as error:  # a stranger's header, a parser's slip
        raise _no_boundary() from error
    text = found.decode(_BYTES)
    if not text or not text.isprintable() or set(text) & set('"\\'):
        raise _no_boundary()
    if len(found) > MAX_BOUNDARY_BYTES:
        raise BadForm(
            f"the boundary is longer than {MAX_BOUNDARY_BYTES} characters",
            f"boundary 超过 {MAX_BOUNDARY_BYTES} 个字符",
        )
    return found


def boundary_in(body: bytes) -> bytes:
    """What the body itself seems to use as its boundary; empty if it looks like no form."""
    match = _FIRST_LINE.search(body[:_SEARCHED_BYTES])
    return match.group(1) if match else b""


def contents(body: bytes) -> list[bytes]:
    """What the parts of something that looks like a form hold, as far as that can be said: also of
    one that is cut off, or whose boundary nobody has named. Empty if it looks like none."""
    boundary = boundary_in(body)
    if not boundary:
        return []
    pieces = body.split(b"--" + boundary, MAX_PARTS + 1)[1:]
    split = (re.split(rb"\r?\n\r?\n", piece, maxsplit=1) for piece in pieces)
    return [found[1] for found in split if len(found) == 2]


def parts_of(body: bytes, boundary: bytes) -> list[FormPart]:
    """Every part in its order. Raises `BadForm`."""
    _check_boundary(body, boundary)
    collected = _Collector()
    try:
        parser = MultipartParser(boundary, collected.callbacks())
        parser.write(body)
    except FormParserError as error:
        why, why_zh = _why_unreadable(body, boundary) or (str(error), str(error))
        raise BadForm(f"the multipart body cannot be read: {why}", f"无法解析：{why_zh}") from error
    if not collected.is_ended:
        raise _truncated_form()
    return collected.parts


def _no_boundary() -> BadForm:
    return BadForm(
        "the multipart header names no boundary; it should read:"
        " Content-Type: multipart/form-data; boundary=…",
        "请求头没有可用的 boundary；应为：Content-Type: multipart/form-data; boundary=…",
    )


def _check_boundary(body: bytes, boundary: bytes) -> None:
    """The parser leaves out what lies before the first line that it knows and a last part that is
    cut off, as if they had never been sent."""
    last_line = b"--" + boundary + b"--"
    if not body or last_line in body:
        return
    used = boundary_in(body)
    if used and used != boundary:
        named, found = boundary.decode(_BYTES), used.decode("utf-8", "replace")
        raise BadForm(
            f"the header names the boundary {named!r}, the body uses {found!r}",
            f"请求头中的 boundary 是 {named!r}，而内容使用的是 {found!r}",
        )
    if b"--" + boundary not in body:
        raise BadForm(
            "the body is no multipart form: no line of it is the boundary",
            "内容不是 multipart 表单：没有任何一行是 boundary",
        )
    raise _truncated_form()


def _truncated_form() -> BadForm:
    return BadForm(
        "the form's end is missing (the boundary between two pairs of hyphens): it was cut off",
        "表单没有结束标记（boundary 前后各两个连字符）：内容被截断",
    )


def _why_unreadable(body: bytes, boundary: bytes) -> tuple[str, str] | None:
    """What a sender can do about it, where the parser names a byte only."""
    line = b"--" + boundary
    if line + b"\r\n" not in body and line + b"\n" in body:
        return "its lines end with LF alone; a form's lines end with CR LF", "行尾必须是 CR LF"
    if not body.lstrip(b"\r\n").startswith(line):
        return "something stands before its first boundary", "第一个 boundary 之前有其他内容"
    return None


class _Collector:
    """What the parser calls. Invariant: `parts` are whole; the one in work is in the other
    fields."""

    def __init__(self) -> None:
        self.parts: list[FormPart] = []
        self.is_ended = False
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        self._data: list[bytes] = []

    def callbacks(self) -> MultipartCallbacks:
        """By the parser's names."""
        return {
            "on_part_begin": self._begin, "on_part_data": self._on_data, "on_part_end": self._end,
            "on_header_field": self._on_field, "on_header_value": self._on_value,
            "on_header_end": self._on_header, "on_end": self._on_end,
        }  # fmt: skip

    def _begin(self) -> None:
        if len(self.parts) >= MAX_PARTS:
            raise BadForm(
                f"the form has more than {MAX_PARTS} parts; one record with its pictures per form",
                f"表单超过 {MAX_PARTS} 个部分；每个表单只能包含一条记录及其图片",
            )
        self._headers, self._data = {}, []

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def _on_end(self) -> None:
        self.is_ended = True

    def _end(self) -> None:
        options = _options(self._headers.get(b"content-disposition", b""))
        self.parts.append(
            FormPart(
                _text(options.get(b"name", b"")),
                _text(options.get(b"filename", b"")),
                _text(self._headers.get(b"content-type", b"")),
                b"".join(self._data),
            )
        )


def _options(header: bytes) -> dict[bytes, bytes]:
    try:
        return parse_options_header(header.decode(_BYTES))[1]
    except (ValueError, IndexError, KeyError):
        return {}


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace").strip()
