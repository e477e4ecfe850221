"""A foreign message becomes a row of the contract, or a rejected row with its reason (Q-0).

In: the message's bytes, its kind, what the bus knows of it (`Envelope`), the register, the site's
zone.
Out: `RecordRow` or `RejectedRow`. Never: I/O, the clock, an exception for bad input.

Exactly: *invalid* is what is unparsable, has no readable checkpoint or time, or has all ten
recognition fields `识别异常`; a face needs a picture or a feature besides. Everything else is
valid, however odd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from bus.contracts.headers import Reason, RecordKind
from bus.contracts.keys import UNREADABLE
from bus.contracts.register import Register
from bus.domain.device_message import (
    DeviceMessage,
    FaceMessage,
    Unreadable,
    VehicleMessage,
    VideoMessage,
)
from bus.domain.kinds import KINDS, STORED_WITH_PLATE, DataKind
from bus.domain.parsed_message import ParsedMessage
from bus.domain.plates import plate_key
from bus.domain.record_identity import identity_without_header
from bus.domain.times import BadTime, local_time
from ingest.normalise.clock import DEFAULT, ClockLimits, clock_off_ms, is_arrival
from ingest.normalise.partial_parse import PartialFields, parse_partial
from ingest.store.port import RecordRow, RejectedRow

MAX_CHECKPOINT_CHARACTERS = 256  # it ends up in row keys; a real one has a dozen or two
_PERSONS = frozenset({"person", "pedestrian", "人", "行人", "人员"})


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the bus (or the edge) knows of a message besides its bytes."""

    received_at_ms: int
    record_id: str = ""  # header record-id; empty: see `with_identity`
    source: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    replayed: bool = False
    clock: ClockLimits = DEFAULT
    # How long the topic keeps messages, where the arrival is what a producer says; None: an edge
    # has noted it.
    retention_ms: int | None = None


class Invalid(Exception):
    """Why a record is not valid, and which wire key is at fault."""

    def __init__(self, reason: Reason, field: str = "") -> None:
        super().__init__(f"{reason.value} {field}".strip())
        self.reason = reason
        self.field = field


def normalise(
    value: bytes | None,
    kind: str,
    envelope: Envelope,
    register: Register | None,
    zone: str,
) -> RecordRow | RejectedRow:
    """The row of one message of `vehicle`, `face` or `video`."""
    return normalise_message(ParsedMessage(value or b"", kind), envelope, register, zone)


def normalise_message(
    message: ParsedMessage,
    envelope: Envelope,
    register: Register | None,
    zone: str,
    *,
    pictures_beside: bool = False,
) -> RecordRow | RejectedRow:
    """As `normalise`, of a message that others read, too.

    `pictures_beside`: pictures came in other parts of the request and have no address yet.
    """
    body, kind = message.value, message.kind
    try:
        wire = message.wire()
    except Unreadable as error:
        found = PartialFields.from_bytes(body)
        envelope = with_identity(envelope, kind, body)
        return _rejected(found, body, kind, envelope, error.reason.value, "", zone)
    envelope = with_identity(envelope, kind, body, wire)
    try:
        return _valid(wire, _Given(KINDS[kind], envelope, register, body, pictures_beside), zone)
    except Invalid as error:
        found = PartialFields.from_message(wire)
        reason = error.reason.value
        return _rejected(found, body, kind, envelope, reason, error.field, zone)


class _Given(NamedTuple):
    """What a valid record's row is made of, besides what was read of it."""

    kind: DataKind
    envelope: Envelope
    register: Register | None
    body: bytes
    pictures_beside: bool


def _valid(wire: DeviceMessage, given: _Given, zone: str) -> RecordRow:
    """Raises `Invalid`."""
    captured_at_ms = _checkpoint_and_time(wire, zone)
    if given.envelope.retention_ms is not None:
        given = given._replace(envelope=_with_true_arrival(given.envelope, captured_at_ms))
    return _ROW_OF.get(type(wire), _plain)(wire, captured_at_ms, given)


def rejected_row(
    value: bytes | None, kind: str, envelope: Envelope, reason: str, field: str, zone: str
) -> RejectedRow:
    """A rejected record with all that can still be read of its place, time and device.

    Also for records of `quarantine.records`, whose reason and field come from their headers.
    """
    body = value or b""
    envelope = with_identity(envelope, kind, body)
    return _rejected(parse_partial(body), body, kind, envelope, reason, field, zone)


def with_identity(
    envelope: Envelope, kind: str, body: bytes, wire: DeviceMessage | None = None
) -> Envelope:
    """The envelope with the record's identity: the one made where it entered, else the device's own
    number, else its place on the bus."""
    if envelope.record_id:
        return envelope
    found = identity_without_header(
        wire, kind, envelope.topic, envelope.partition, envelope.offset, body
    )
    return msgspec.structs.replace(envelope, record_id=found)


def partition_key(row: RecordRow) -> bytes | None:
    """As `bus.domain.identity.key_of`, of a normalised record."""
    if row.kind in STORED_WITH_PLATE:
        return row.plate_key.encode("utf-8", "replace") or None
    return row.camera_ip.encode("utf-8", "replace") or None


def _with_true_arrival(
    envelope: Envelope, captured_at_ms: int, instead_ms: int = 0
) -> Envelope:
    """With no arrival where the producer's time cannot be one: its clock is wrong."""
    stated_ms, retention_ms = envelope.received_at_ms, envelope.retention_ms
    if retention_ms is None or is_arrival(stated_ms, captured_at_ms, retention_ms, envelope.clock):
        return envelope
    return msgspec.structs.replace(envelope, received_at_ms=instead_ms)


def _rejected(
    found: PartialFields,
    body: bytes,
    kind: str,
    envelope: Envelope,
    reason: str,
    field: str,
    zone: str,
) -> RejectedRow:
    captured_at_ms = _time_or_zero(found.captured_at, zone)
    if captured_at_ms and envelope.retention_ms is not None:
        # Lists of rejected ones go by the arrival.
        envelope = _with_true_arrival(envelope, captured_at_ms, captured_at_ms)
    return RejectedRow(
        record_id=envelope.record_id,
        kind=kind,
        reason=reason,
        field=field,
        camera_ip=found.camera_ip,
        recognizer_ip=found.recognizer_ip,
        checkpoint_id=found.checkpoint_id[:MAX_CHECKPOINT_CHARACTERS],
        source=envelope.source,
        received_at_ms=envelope.received_at_ms,
        body=body,
        captured_at_ms=captured_at_ms,
    )


def _checkpoint_and_time(wire: DeviceMessage, zone: str) -> int:
    """The capture time of a record whose place and time are readable; raises `Invalid`."""
    checkpoint = wire.checkpoint_id.strip()
    if not checkpoint or checkpoint == UNREADABLE:
        raise Invalid(Reason.NO_CHECKPOINT, "卡口编号")
    if len(checkpoint) > MAX_CHECKPOINT_CHARACTERS:
        raise Invalid(Reason.BAD_VALUE, "卡口编号")
    wire.checkpoint_id = checkpoint
    text = wire.captured_at.strip()
    if not text:
        raise Invalid(Reason.NO_TIME, "抓拍时间")
    try:
        return local_time(zone).to_ms(text)
    except BadTime as error:
        raise Invalid(Reason.BAD_TIME, "抓拍时间") from error


def _vehicle(wire: VehicleMessage, captured_at_ms: int, given: _Given) -> RecordRow:
    plate = wire.plate_number
    recognised = (
        plate, wire.plate_color, wire.vehicle_color, wire.vehicle_type, wire.vehicle_brand,
        wire.vehicle_series, wire.inspection_sticker, wire.tissue_box, wire.driver_belt,
        wire.passenger_belt,
    )  # fmt: skip
    unread = recognised.count(UNREADABLE)
    if unread == len(recognised):
        raise Invalid(Reason.ALL_UNREADABLE)
    _, envelope, register, body, _ = given
    off_ms = _clock_off_ms(captured_at_ms, wire.camera_ip, envelope)
    return RecordRow(
        record_id=envelope.record_id,
        kind=RecordKind.VEHICLE.value,
        checkpoint_id=wire.checkpoint_id,
        district_id=register.district_of(wire.checkpoint_id) if register else "",
        camera_ip=wire.camera_ip,
        recognizer_ip=wire.recognizer_ip,
        captured_at_ms=captured_at_ms - off_ms,
        received_at_ms=envelope.received_at_ms,
        clock_off_ms=off_ms,
        plate_number=plate,
        plate_key=plate_key(plate),
        plate_color=wire.plate_color,
        vehicle_color=wire.vehicle_color,
        vehicle_type=wire.vehicle_type,
        vehicle_brand=wire.vehicle_brand,
        vehicle_series=wire.vehicle_series,
        picture_url=wire.picture_url,
        partly_read=unread > 0,
        replayed=envelope.replayed,
        body=body,
    )


def _face(wire: FaceMessage, captured_at_ms: int, given: _Given) -> RecordRow:
    shown = (
        wire.face_feature, wire.face_picture_url, wire.scene_picture_url, wire.inline_face_picture,
        wire.inline_scene_picture,
    )  # fmt: skip
    if not given.pictures_beside and all(text.strip() in ("", UNREADABLE) for text in shown):
        raise Invalid(Reason.NO_PICTURE_OR_FEATURE, "人脸图片地址")
    return _plain(wire, captured_at_ms, given)


def _video(wire: VideoMessage, captured_at_ms: int, given: _Given) -> RecordRow:
    is_person = wire.target_class.strip().lower() in _PERSONS
    stored_as = RecordKind.PERSON if is_person else RecordKind.MOVER
    return _plain(wire, captured_at_ms, given, stored_as.value)


def _plain(
    wire: DeviceMessage, captured_at_ms: int, given: _Given, stored_as: str = ""
) -> RecordRow:
    """A record without a plate, of which place and time are all that must be readable."""
    kind, envelope, register, body, _ = given
    off_ms = _clock_off_ms(captured_at_ms, wire.camera_ip, envelope)
    return RecordRow(
        record_id=envelope.record_id,
        kind=stored_as or kind.stored_as[0],
        checkpoint_id=wire.checkpoint_id,
        district_id=register.district_of(wire.checkpoint_id) if register else "",
        camera_ip=wire.camera_ip,
        recognizer_ip=wire.recognizer_ip,
        captured_at_ms=captured_at_ms - off_ms,
        received_at_ms=envelope.received_at_ms,
        clock_off_ms=off_ms,
        picture_url=wire.picture_url,
        replayed=envelope.replayed,
        body=body,
    )


# What makes the row of a message, or raises `Invalid`; `_plain` for every other kind.
_ROW_OF: dict[type[DeviceMessage], Callable[[Any, int, _Given], RecordRow]] = {
    VehicleMessage: _vehicle,
    FaceMessage: _face,
    VideoMessage: _video,
}


def _clock_off_ms(captured_at_ms: int, camera_ip: str, envelope: Envelope) -> int:
    """See `clock_off_ms`; captured minus this is the time by which the record is ordered."""
    return clock_off_ms(
        captured_at_ms, envelope.received_at_ms, envelope.clock, replayed=envelope.replayed,
        camera_ip=camera_ip,
    )  # fmt: skip


def _time_or_zero(text: str, zone: str) -> int:
    """The capture time of a rejected record as far as it tells one; devices of 1970 stay near 0."""
    try:
        return local_time(zone).to_ms(text.strip())
    except BadTime:
        return 0
