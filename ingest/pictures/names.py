"""Names of pictures: `day/checkpoint/record-role.jpg`, and of copies that belong to alarms. Pure.

In: what is known of a record. Out: relative names that are safe in a path and in a URL, and content
types.
Never: a name of the sender's making. The day is that of arrival: a camera that lives in 1970 must
not put its pictures under the wrong day.
"""

from __future__ import annotations

import hashlib
import re

from bus.contracts.keys import INLINE_PICTURES
from bus.domain.kinds import KEYS_OF_KIND

# What a picture shows, by the wire key it came under (`vehicle_picture_url` shows a vehicle); an
# unknown part is kept as "other".
ROLES = {
    key: table[address].removesuffix("_picture_url")
    for key, address in INLINE_PICTURES.items()
    for table in KEYS_OF_KIND.values()
    if address in table
}
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
)
CONTENT_TYPES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "bmp": "image/bmp",
    "webp": "image/webp",
    "bin": "application/octet-stream",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
ALARMS_FOLDER = "alarms"
DAY = re.compile(r"[0-9]{8}")  # the folders of pictures, whose names are days


def picture_name(day: str, checkpoint_id: str, record_id: str, role: str, data: bytes) -> str:
    """`20261010/110110_1_0_0/<record id>-vehicle.jpg`: the same for every retry of one record."""
    return f"{day}/{safe(checkpoint_id)}/{safe(record_id)}-{safe(role)}.{extension(data)}"


def alarm_picture_name(day: str, alarm_id: str, number: int, name: str) -> str:
    """`alarms/20261010/<alarm id>-<digest>/0.jpg`: the digest keeps two ids apart that look alike
    as a path."""
    digest = hashlib.blake2b(alarm_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    end = name.rpartition(".")[2].lower()
    end = end if end in CONTENT_TYPES else "bin"
    return f"{ALARMS_FOLDER}/{day}/{safe(alarm_id)}-{digest}/{number}.{end}"


def is_original(name: str) -> bool:
    """Whether it lies under a day, as pictures of records do and copies of alarms do not."""
    return DAY.fullmatch(name.partition("/")[0]) is not None


def safe(text: str) -> str:
    """Any text as one path segment."""
    return _UNSAFE.sub("_", text)[:120] or "_"


def extension(data: bytes) -> str:
    """By what the bytes are, never by what they are called."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "bin")


def content_type(name: str) -> str:
    """What the picture is served as; anything that is no picture only as bytes to be saved."""
    return CONTENT_TYPES.get(name.rpartition(".")[2].lower(), CONTENT_TYPES["bin"])
