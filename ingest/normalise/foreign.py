"""Messages of other makers' interfaces, known by their shape, so that their senders learn what they
send and what is expected instead. Pure.

In: a message's bytes, or a request's path. Out: whose it is, or nothing. Never: reading a record
out of it (adapters come with the interfaces themselves). Source: the makers' public documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl

from bus.domain.device_message import Unreadable, read_object
from bus.domain.kinds import KEYS_OF_KIND
from ingest.normalise import multipart

GAT_1400 = "GA/T 1400"
HIKVISION = "Hikvision ISAPI"
DAHUA = "Dahua ITSAPI"
REKOR = "Rekor Scout (OpenALPR)"
PLATE_RECOGNIZER = "Plate Recognizer"
DEEPSTREAM = "NVIDIA DeepStream"
AXIS = "Axis License Plate Verifier"

_OWN_KEYS = frozenset().union(*KEYS_OF_KIND.values())
_GAT_WORDS = ("MotorVehicle", "NonMotorVehicle", "Face", "Person", "Image", "VideoSlice", "File")
_GAT_KEYS = frozenset(
    {f"{word}{end}" for word in _GAT_WORDS for end in ("ListObject", "Object", "List")}
    | {"SubscribeNotificationListObject", "RegisterObject", "KeepaliveObject", "ImageList"}
)
_XML_MARK = b"EventNotificationAlert"
_SEARCHED_BYTES = 4096  # where an XML's root element stands, behind declarations and comments
_URLENCODED = re.compile(rb"[\w.%+-]{1,64}=")
_MAX_URLENCODED = 1 << 20
_MAX_DEPTH = 2  # a form within a form


def _is_within(found: Mapping[str, object], outer: str, *inner: str) -> bool:
    value = found.get(outer)
    return isinstance(value, dict) and any(key in value for key in inner)


def _has(*needed: str) -> Callable[[Mapping[str, object]], bool]:
    return lambda found: all(key in found for key in needed)


_SHAPES: tuple[tuple[str, Callable[[Mapping[str, object]], bool]], ...] = (
    (GAT_1400, lambda found: not _GAT_KEYS.isdisjoint(found)),
    (HIKVISION, lambda found: _XML_MARK.decode() in found or found.get("eventType") == "ANPR"),
    (DAHUA, lambda found: _is_within(found, "Picture", "Plate", "SnapInfo")),
    (REKOR, lambda found: str(found.get("data_type", "")).startswith("alpr_")),
    (REKOR, _has("agent_uid", "video_streams")),
    (PLATE_RECOGNIZER, lambda found: "hook" in found and _is_within(found, "data", "results")),
    (DEEPSTREAM, _has("messageid", "mdsversion")),
    (DEEPSTREAM, _has("@timestamp", "sensorId", "objects")),
    (AXIS, _has("packetCounter", "plateText")),
    (AXIS, _has("plateUTF8", "carState")),
)
_PATHS: tuple[tuple[str, str], ...] = (
    ("/viid/", GAT_1400),
    ("/isapi/", HIKVISION),
    ("/notificationinfo/", DAHUA),
)


def maker_of(value: bytes) -> str:
    """Whose interface the message belongs to, plain or in a form; empty when it is ours or
    unknown."""
    return _maker_within(value, _MAX_DEPTH)


def _maker_within(value: bytes, depth: int) -> str:
    maker = _maker_of_plain(value)
    if maker or not depth:
        return maker
    found = (_maker_within(content, depth - 1) for content in _contents(value))
    return next(filter(None, found), "")


def _contents(value: bytes) -> Iterable[bytes]:
    """What a form's fields hold, by the shape of the bytes: their sender may say otherwise."""
    if _URLENCODED.match(value):
        text = value[:_MAX_URLENCODED].decode("latin-1")
        try:
            return [one.encode() for _, one in parse_qsl(text, max_num_fields=multipart.MAX_PARTS)]
        except ValueError:
            return []
    return multipart.contents(value)


def _maker_of_plain(value: bytes) -> str:
    start = value[:_SEARCHED_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<"):
        return HIKVISION if _XML_MARK in start else ""
    if not start.startswith(b"{"):
        return ""
    try:
        return maker_of_object(read_object(value.strip()))
    except Unreadable:
        return ""


def maker_of_object(found: Mapping[str, object]) -> str:
    """As `maker_of`. An object with a key of ours is ours."""
    if not _OWN_KEYS.isdisjoint(found):
        return ""
    return next((maker for maker, fits in _SHAPES if fits(found)), "")


def maker_of_path(path: str) -> str:
    """Whose interface a request was meant for."""
    return next((maker for start, maker in _PATHS if path.lower().startswith(start)), "")


def sentences(maker: str) -> tuple[str, str]:
    """(English, Chinese): what it is, and what the bus takes instead."""
    return (
        f"this is a message of {maker}, which the bus does not read yet; send its own keys"
        " (docs/how-to-send.md)",
        f"这是 {maker} 接口的消息，总线目前不能读取；请按约定的键发送（docs/how-to-send.zh.md）",
    )
