"""The device messages as they are read: only the fields we look at, everything else is skipped
unread.

In: JSON bytes. Out: `VehicleMessage`, `FaceMessage`, `VideoMessage`, or a `PlainMessage` for
a kind without a type of its own; raises `Unreadable`.
Never: deciding whether a record is valid. Source: bus.domain.kinds.

Two ways: a typed decode straight into a struct (what every healthy device takes), and where a field
has another type than text, a lenient one that reads numbers as text and everything else as not
there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from bus.contracts.headers import Reason
from bus.domain.kinds import KINDS, DataKind


class Unreadable(Exception):
    """The bytes are no JSON object; `reason` says what they are instead."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


_WIRE_KEYS = {
    english: chinese for kind in KINDS.values() for chinese, english in kind.keys.items()
}
_PICTURE = "_picture_url"
_WIRE_KEYS["inline_face_picture"] = "人脸图片"
_WIRE_KEYS["inline_scene_picture"] = "场景图片"


class DeviceMessage(msgspec.Struct, rename=_WIRE_KEYS, gc=False):
    """What every record tells: where, when, by which device and server."""

    checkpoint_id: str = ""
    captured_at: str = ""
    camera_ip: str = ""
    recognizer_ip: str = ""
    sender_record_id: str = ""

    @property
    def picture_url(self) -> str:
        """The picture that shows most."""
        return ""


class VehicleMessage(DeviceMessage, rename=_WIRE_KEYS, gc=False):
    """A vehicle record: the ten recognition fields and the pictures."""

    plate_number: str = ""
    plate_color: str = ""
    vehicle_color: str = ""
    vehicle_type: str = ""
    vehicle_brand: str = ""
    vehicle_series: str = ""
    inspection_sticker: str = ""
    tissue_box: str = ""
    driver_belt: str = ""
    passenger_belt: str = ""
    vehicle_picture_url: str = ""
    plate_picture_url: str = ""
    scene_picture_url: str = ""

    @property
    def picture_url(self) -> str:
        """The picture that shows most of the vehicle."""
        return self.vehicle_picture_url or self.scene_picture_url or self.plate_picture_url


class FaceMessage(DeviceMessage, rename=_WIRE_KEYS, gc=False):
    """A face record: its pictures (by address, or still inline) and its feature."""

    face_feature: str = ""
    face_picture_url: str = ""
    scene_picture_url: str = ""
    inline_face_picture: str = ""
    inline_scene_picture: str = ""

    @property
    def picture_url(self) -> str:
        """The close-up where there is one."""
        return self.face_picture_url or self.scene_picture_url


class VideoMessage(DeviceMessage, rename=_WIRE_KEYS, gc=False):
    """A track found in a film."""

    target_class: str = ""
    target_picture_url: str = ""
    scene_picture_url: str = ""

    @property
    def picture_url(self) -> str:
        """The close-up where there is one."""
        return self.target_picture_url or self.scene_picture_url


class PlainMessage(DeviceMessage, rename=_WIRE_KEYS, gc=False):
    """A record of a kind of which only place, time and pictures are read."""

    @property
    def picture_url(self) -> str:
        """The first there is, in the order of the kind's keys."""
        fields = (f for f in self.__struct_fields__ if f.endswith(_PICTURE))
        return next((url for f in fields if (url := getattr(self, f))), "")


def _plain_type(kind: DataKind) -> type[PlainMessage]:
    """The type for a kind that has none of its own."""
    pictures = [(a, str, "") for a in kind.keys.values() if a.endswith(_PICTURE)]
    name = f"{kind.name.title()}Message"
    made = msgspec.defstruct(name, pictures, bases=(PlainMessage,), rename=_WIRE_KEYS, gc=False)
    return cast(type[PlainMessage], made)


_OF_KIND: dict[str, type[DeviceMessage]] = {
    "vehicle": VehicleMessage,
    "face": FaceMessage,
    "video": VideoMessage,
}
MESSAGE_TYPES: dict[str, type[DeviceMessage]] = {
    name: _OF_KIND.get(name) or _plain_type(kind) for name, kind in KINDS.items()
}
# Attribute -> wire key; looked up once, because msgspec computes it again at every call.
_TEXT_FIELDS: dict[type[DeviceMessage], dict[str, str]] = {
    wire: {f.name: f.encode_name for f in msgspec.structs.fields(wire)}
    for wire in MESSAGE_TYPES.values()
}
_DECODERS = {kind: msgspec.json.Decoder(wire) for kind, wire in MESSAGE_TYPES.items()}
_ANY = msgspec.json.Decoder()


def read(
    value: bytes, kind: str, whole: Callable[[], dict[str, Any]] | None = None
) -> DeviceMessage:
    """The fields of one record; raises `Unreadable`. `whole` has its object, where somebody has
    read that already."""
    try:
        str(value, "utf-8")  # the typed decode skips unknown keys unread, in any encoding
        return _DECODERS[kind].decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = read_object(value) if whole is None else whole()
        return _read_leniently(found, MESSAGE_TYPES[kind])


def read_object(value: bytes) -> dict[str, object]:
    """The whole JSON object; raises `Unreadable`."""
    try:
        found = _ANY.decode(value)
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.NOT_UTF8, str(error)) from error
    except RecursionError as error:
        raise Unreadable(Reason.NOT_JSON, "nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise Unreadable(_damage_reason(value), str(error)) from error
    if not isinstance(found, dict):
        raise Unreadable(Reason.NOT_AN_OBJECT, f"a JSON {_json_type(found)}")
    return found


def as_text(value: object) -> str:
    """A field as text: text as it is, a whole number in digits, anything else as not there."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""


def _read_leniently(found: dict[str, Any], wire: type[DeviceMessage]) -> DeviceMessage:
    """Fields of wrong type are read as text or left out; the caller judges what is missing."""
    values = {name: found.get(key) for name, key in _TEXT_FIELDS[wire].items()}
    texts: dict[str, Any] = {name: as_text(value) for name, value in values.items()}
    return wire(**texts)


def _damage_reason(value: bytes) -> Reason:
    """The JSON parser stops at the first damage; another encoding is the more useful answer."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    return Reason.NOT_JSON


def _json_type(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
