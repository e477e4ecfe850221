"""Pictures that came inside a record or beside it, and the record with their addresses instead.
Pure.

In: a record's bytes. Out: its pictures, and its bytes with URLs. Never: storing, other changes:
every other value keeps the very bytes the device wrote (W-2: pictures never travel in a message).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping

import msgspec

from bus.contracts.keys import INLINE_PICTURES
from bus.domain.parsed_message import ParsedMessage

_DATA_URL = re.compile(r"data:[\w/+.-]{0,100};base64,")
# Every inline key ends with this, or is escaped; most records hold neither, since the keys of
# addresses go on.
_HINT = '图片"'.encode()
_ESCAPE = b"\\u"


def extract_pictures(message: ParsedMessage) -> dict[str, bytes]:
    """Wire key -> picture; empty where it is no base64 (such a one stays in the record)."""
    if not _may_contain_pictures(message.value):
        return {}
    return {
        key: _decode(bytes(raw))
        for key, raw in message.raw_fields().items() if key in INLINE_PICTURES
    }  # fmt: skip


def _may_contain_pictures(value: bytes) -> bool:
    """Cheap, for the many records that carry none."""
    return _HINT in value or _ESCAPE in value


def with_urls(
    message: ParsedMessage, urls: Mapping[str, str], lost: Collection[str] = ()
) -> bytes:
    """The record without the pictures `urls` names by wire key, with their addresses instead;
    `lost` ones are taken out without an address."""
    if not urls and not lost:
        return message.value
    gone = {*urls, *lost}
    fields = {key: raw for key, raw in message.raw_fields().items() if key not in gone}
    for key, url in urls.items():
        fields[INLINE_PICTURES[key]] = msgspec.Raw(msgspec.json.encode(url))
    return msgspec.json.encode(fields)


def _decode(raw: bytes) -> bytes:
    """The picture of a JSON string, empty if it is not base64 (line breaks are allowed)."""
    text = msgspec.json.decode(raw)
    if not isinstance(text, str):
        return b""
    match = _DATA_URL.match(text)
    try:
        return base64.b64decode("".join(text[match.end() if match else 0 :].split()), validate=True)
    except (binascii.Error, ValueError):
        return b""
