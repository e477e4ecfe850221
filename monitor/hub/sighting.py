"""A message of a data topic to the few fields a live row shows (pure).

In: value, headers, coordinates. Out: a `Sighting`, or None for a message that is no record.
Never: validation (that is `ingest`), a rejected record's reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.keys import FACE, VEHICLE, VIDEO
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, DATA_VIDEO

DATA_TOPICS: dict[str, dict[str, str]] = {
    DATA_VEHICLE: VEHICLE,
    DATA_FACE: FACE,
    DATA_VIDEO: VIDEO,
}
_KIND = {DATA_VEHICLE: "vehicle", DATA_FACE: "face"}
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


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
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


def sighting(
    topic: str,
    value: bytes | None,
    *,
    record_id: str,
    received_at_ms: int,
    zone: ZoneInfo,
) -> Sighting | None:
    """Parse one message; whatever cannot be read is left empty."""
    try:
        body = msgspec.json.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    fields = _english(body, DATA_TOPICS[topic])
    kind = _KIND.get(topic) or ("person" if fields.get("target_class") == "person" else "mover")
    return Sighting(
        record_id=record_id,
        kind=kind,
        checkpoint_id=fields.get("checkpoint_id", ""),
        camera_ip=fields.get("camera_ip", ""),
        captured_at_ms=parse_device_time(fields.get("captured_at", ""), zone),
        received_at_ms=received_at_ms,
        plate_number=fields.get("plate_number", ""),
        picture_url=next((fields[key] for key in _PICTURES if fields.get(key)), ""),
        features={key: fields[key] for key in _TEXT if fields.get(key)},
    )


def _english(body: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    return {
        keys[key]: _text(value)
        for key, value in body.items()
        if key in keys and isinstance(value, (str, int, float))
    }


def _text(value: str | int | float) -> str:
    text = str(value)
    return text if text.startswith(("http", "/")) else text[:MAX_TEXT_CHARACTERS]


def parse_device_time(text: str, zone: ZoneInfo) -> int:
    """`2017-08-24 17:25:34[.123]` in the site's zone to epoch milliseconds; 0 when unreadable."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
