"""What can still be read of a record that is not valid: which device, which server, where, when
(Q-3, Q-4).

In: any bytes. Out: `PartialFields`, empty where nothing is found. Never: an exception, a guess.
A server that garbles its JSON mostly leaves the keys intact; the operator must learn which one it
is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bus.domain.device_message import DeviceMessage, Unreadable, as_text, read_object

# Enough for any record without inline pictures; a stranger's blob is not combed
_SEARCHED_BYTES = 64 * 1024
_FIELDS = {
    "checkpoint_id": "卡口编号",
    "captured_at": "抓拍时间",
    "camera_ip": "抓拍设备地址",
    "recognizer_ip": "后端图片识别服务器地址",
}
# A key of ours, a colon, and a plain text value; the closing quote may be lost with the damage.
_PATTERNS = {
    attribute: re.compile(key.encode() + rb'"?\s{0,8}:\s{0,8}"([^"\\,{}\x00-\x1f]{1,256})')
    for attribute, key in _FIELDS.items()
}


class PartialFields(NamedTuple):
    """The four fields that say whose record it was; empty where unreadable."""

    checkpoint_id: str = ""
    captured_at: str = ""
    camera_ip: str = ""
    recognizer_ip: str = ""

    @classmethod
    def from_bytes(cls, body: bytes) -> PartialFields:
        """What bytes that are no object still show."""
        return cls(**{name: _search(body, name) for name in _FIELDS})

    @classmethod
    def from_message(cls, message: DeviceMessage) -> PartialFields:
        """What an object says that is read already."""
        return cls(
            message.checkpoint_id.strip(),
            message.captured_at.strip(),
            message.camera_ip.strip(),
            message.recognizer_ip.strip(),
        )


def parse_partial(body: bytes) -> PartialFields:
    """The fields from the object if it is one, else from what the bytes still show."""
    try:
        found = read_object(body)
    except Unreadable:
        return PartialFields.from_bytes(body)
    return PartialFields(**{name: as_text(found.get(key)).strip() for name, key in _FIELDS.items()})


def _search(body: bytes, attribute: str) -> str:
    match = _PATTERNS[attribute].search(body[:_SEARCHED_BYTES])
    return match.group(1).decode("utf-8", "replace").strip() if match else ""
