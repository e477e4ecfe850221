"""A message of a data topic to the few fields a live row shows (pure).

In: value, headers, coordinates. Out: a `LiveRecord`, or None for a message that is no record.
Never: validation (that is `ingest`), a rejected record's reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.headers import RecordKind
from bus.domain.kinds import KIND_OF_TOPIC, KINDS, DataKind
from bus.domain.times import BadTime, local_time

_PICTURES = (
    "vehicle_picture_url",
    "face_picture_url",
    "target_picture_url",
    "plate_picture_url",
    "scene_picture_url",
)
_TEXT = (
    "plate_color",
    "vehicle_color",
    "vehicle_type",
    "vehicle_brand",
    "vehicle_series",
    "gender",
    "age_from",
    "age_to",
    "glasses",
    "mask",
    "hat",
    "target_class",
    "track_id",
)
MAX_TEXT_CHARACTERS = 80  # of one field in a live row; a device may write a novel


class LiveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record as it passes. `captured_at_ms` is 0 when the device wrote no readable time."""

    record_id: str
    kind: str
    checkpoint_id: str
    camera_ip: str
    captured_at_ms: int
    received_at_ms: int
    plate_number: str = ""
    picture_url: str = ""
    features: dict[str, str] = {}


def parse_live_record(
    topic: str,
    value: bytes | None,
    *,
    record_id: str,
    received_at_ms: int,
    zone: ZoneInfo,
) -> LiveRecord | None:
    """Parse one message; fields that cannot be read are left empty."""
    try:
        body = msgspec.json.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    kind = KINDS[KIND_OF_TOPIC[topic]]
    fields = _english(body, kind.keys)
    return LiveRecord(
        record_id=record_id,
        kind=_stored_kind(kind, fields.get("target_class", "")),
        checkpoint_id=fields.get("checkpoint_id", ""),
        camera_ip=fields.get("camera_ip", ""),
        captured_at_ms=parse_device_time(fields.get("captured_at", ""), zone),
        received_at_ms=received_at_ms,
        plate_number=fields.get("plate_number", ""),
        picture_url=next((fields[key] for key in _PICTURES if fields.get(key)), ""),
        features={key: fields[key] for key in _TEXT if fields.get(key)},
    )


def _stored_kind(kind: DataKind, target_class: str) -> str:
    """Under which kind the record will be stored; a video's is the class of its target."""
    if len(kind.stored_as) == 1:
        return kind.stored_as[0]
    person, mover = RecordKind.PERSON.value, RecordKind.MOVER.value
    return person if target_class == person else mover


def _english(body: Mapping[str, object], keys: Mapping[str, str]) -> dict[str, str]:
    return {
        keys[key]: _text(value)
        for key, value in body.items()
        if key in keys and isinstance(value, (str, int, float))
    }


def _text(value: str | int | float) -> str:
    text = str(value)
    return text if text.startswith(("http", "/")) else text[:MAX_TEXT_CHARACTERS]


def parse_device_time(text: str, zone: ZoneInfo) -> int:
    """Epoch milliseconds of a device's local time; 0 when unreadable."""
    try:
        return local_time(zone.key).to_ms(text.strip())
    except BadTime:
        return 0
