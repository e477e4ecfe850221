"""A request's body as single records, each with its original bytes. Pure.

In: body and content type. Out: the records' bytes. Never: judging a record; what is no array of
JSON is one record, whose fault its own check will tell.
"""

from __future__ import annotations

import msgspec

from ingest.normalise.foreign import maker_of

JSON_TYPES = frozenset({"", "application/json", "text/json", "text/plain"})
LINES_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
# Besides these, any type that ends in +json (RFC 6839), as application/VIID+JSON

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class UnknownType(Exception):
    """A content type that records do not come in, and whose interface the body belongs to."""

    def __init__(self, kind: str, maker: str) -> None:
        super().__init__(kind)
        self.maker = maker


def media_type(content_type: str) -> str:
    """Without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def split(body: bytes, content_type: str) -> list[bytes]:
    """The records of a body; raises `UnknownType`."""
    kind = media_type(content_type)
    if kind in LINES_TYPES:
        return _lines(body)
    if kind not in JSON_TYPES and not kind.endswith("+json"):
        raise UnknownType(kind, maker_of(body))
    start = body.lstrip()[:1]
    if start == b"[":
        return _elements(body)
    if start == b"{" and _is_lines(body):
        return _lines(body)
    return [body]


def _elements(body: bytes) -> list[bytes]:
    try:
        return [bytes(element) for element in _ARRAY.decode(body)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return [body]


def _lines(body: bytes) -> list[bytes]:
    return [line.strip() for line in body.splitlines() if line.strip()]


def _is_lines(body: bytes) -> bool:
    """Lines of objects that came as plain JSON: every line begins and ends as an object does."""
    lines = _lines(body)
    return len(lines) > 1 and all(line[:1] == b"{" and line[-1:] == b"}" for line in lines)
