"""One record at the edge: its identity, its verdict, its message for the bus. Pure.

In: a record's bytes and the circumstances of its arrival. Out: `Taken`, for the spool either way:
valid records to their data topic, all others to the quarantine with their reason. Never: I/O, the
clock, dice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from ingest.edge.inline import has_inline, inline_pictures, with_urls
from ingest.normalise import Envelope, own_id, partition_key, rejected_row, uuid7
from ingest.normalise.clock import DEFAULT, ClockLimits
from ingest.normalise.explain import MAX_PICTURE_BYTES, Circumstances, Fault, losses, picture_faults
from ingest.normalise.record import judge
from ingest.normalise.wire import Unreadable, read
from ingest.pictures.names import ROLES, extension, picture_name
from ingest.spool.frame import Entry
from ingest.store.port import RejectedRow

DATA_TOPICS = {
    "vehicle": topics.DATA_VEHICLE,
    "face": topics.DATA_FACE,
    "video": topics.DATA_VIDEO,
}
_OWN_NUMBER = "记录编号".encode()
_NAMING_KEYS = tuple(
    f'"{key}"'.encode()
    for key in ("卡口编号", "抓拍时间", "抓拍设备地址", "车牌号码", "记录编号")
)
_OWN_NUMBER_ESCAPED = b"\\u8bb0"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The circumstances of one request."""

    kind: str
    sender: str
    source: str
    received_at_ms: int
    day: str  # of arrival at the site, for the pictures' names
    site: str
    zone: str
    idempotency_key: str
    replayed: bool
    max_record_bytes: int
    max_picture_bytes: int = MAX_PICTURE_BYTES
    clock: ClockLimits = DEFAULT


@dataclass(frozen=True, slots=True)
class Taken:
    """A record ready for the spool, with the pictures to be kept before: name -> bytes."""

    record_id: str
    entry: Entry
    pictures: Mapping[str, bytes]
    camera_ip: str
    reason: str = ""
    field: str = ""
    warnings: Sequence[Fault] = ()
    is_clock_fault: bool = False


def take(
    value: bytes,
    index: int,
    arrival: Arrival,
    dice: bytes,
    beside: Mapping[str, bytes],
    url_of: Callable[[str], str],
    *,
    may_warn: bool = True,
) -> Taken:
    """Judge one record; `beside` are pictures of other parts of the request, by wire key."""
    record_id = _identity(value, index, arrival, dice)
    envelope = Envelope(
        received_at_ms=arrival.received_at_ms,
        record_id=record_id,
        source=arrival.source,
        replayed=arrival.replayed,
        clock=arrival.clock,
    )
    given = {**(inline_pictures(value) if has_inline(value) else {}), **beside}
    pictures = {key: data for key, data in given.items() if data}
    row, oddly_typed = judge(
        value, arrival.kind, envelope, None, arrival.zone, pictures_beside=bool(pictures)
    )
    if isinstance(row, RejectedRow):
        return _rejected(row, arrival)
    is_clock_fault = row.clock_off_ms != 0
    warnings: Sequence[Fault] = ()
    doubtful = [key for key, data in given.items() if _is_doubtful(data, arrival)]
    if may_warn and (doubtful or oddly_typed or is_clock_fault or _repeats_a_key(value)):
        warnings = _warnings(value, arrival, beside)
    lost = [key for key in doubtful if len(given[key]) > arrival.max_picture_bytes]
    pictures = {key: data for key, data in pictures.items() if key not in lost}
    names = {
        key: picture_name(arrival.day, row.checkpoint_id, record_id, ROLES.get(key, "other"), data)
        for key, data in pictures.items()
    }
    body = with_urls(value, {key: url_of(name) for key, name in names.items()}, lost)
    if len(body) > arrival.max_record_bytes:
        reason = Reason.TOO_LARGE.value
        return _rejected(
            rejected_row(body, arrival.kind, envelope, reason, "", arrival.zone), arrival
        )
    entry = Entry(
        topic=DATA_TOPICS[arrival.kind],
        key=partition_key(row),
        value=body,
        headers=_headers(record_id, DATA_TOPICS[arrival.kind], arrival),
        timestamp_ms=arrival.received_at_ms,
        tally=f"{arrival.kind}/accepted",
    )
    kept = {names[key]: data for key, data in pictures.items()}
    return Taken(
        record_id,
        entry,
        kept,
        row.camera_ip,
        warnings=warnings,
        is_clock_fault=is_clock_fault,
    )


def _is_doubtful(picture: bytes, arrival: Arrival) -> bool:
    """Whether `check-message` has something to say of a picture."""
    is_empty, is_large = not picture, len(picture) > arrival.max_picture_bytes
    return is_empty or is_large or extension(picture) == "bin"


def _repeats_a_key(value: bytes) -> bool:
    """Whether one of the keys that name a vehicle's passing seems to stand there twice; cheap."""
    return any(value.count(key) > 1 for key in _NAMING_KEYS)


def _warnings(value: bytes, arrival: Arrival, beside: Mapping[str, bytes]) -> list[Fault]:
    """What is lost or changed of a record that is valid, in the words of `check-message`."""
    faults = losses(
        value,
        Circumstances(
            arrival.kind,
            arrival.zone,
            arrival.received_at_ms,
            arrival.clock,
            arrival.replayed,
            arrival.max_picture_bytes,
        ),
    )
    for key, data in beside.items():
        faults += picture_faults(key, data, arrival.max_picture_bytes)
    return faults


def _rejected(row: RejectedRow, arrival: Arrival) -> Taken:
    """For the quarantine, with the original bytes as far as a message may be long."""
    added = [
        *_headers(row.record_id, topics.QUARANTINE_RECORDS, arrival),
        (headers.KIND, arrival.kind.encode()),
        (headers.REASON, row.reason.encode()),
        (headers.FIELD, row.field.encode()),
    ]
    if len(row.body) > arrival.max_record_bytes:
        added.append((headers.TRUNCATED, str(len(row.body)).encode()))
    entry = Entry(
        topic=topics.QUARANTINE_RECORDS,
        key=None,
        value=row.body[: arrival.max_record_bytes],
        headers=added,
        timestamp_ms=arrival.received_at_ms,
        tally=f"{arrival.kind}/rejected/{row.reason}",
    )
    return Taken(row.record_id, entry, {}, row.camera_ip, row.reason, row.field)


def _headers(record_id: str, topic: str, arrival: Arrival) -> list[tuple[str, bytes]]:
    added = [
        (headers.RECORD_ID, record_id.encode()),
        (headers.SCHEMA, topics.TOPICS[topic].schema.encode()),
        (headers.RECEIVED_AT, str(arrival.received_at_ms).encode()),
        (headers.SOURCE, arrival.source.encode()),
        (headers.SITE, arrival.site.encode()),
    ]
    if arrival.replayed:
        added.append((headers.REPLAY, b"1"))
    return added


def _identity(value: bytes, index: int, arrival: Arrival, dice: bytes) -> str:
    """The sender's own number if it has one, else the request's key, else a new UUIDv7."""
    if _OWN_NUMBER in value or _OWN_NUMBER_ESCAPED in value:
        try:
            wire = read(value, arrival.kind)
        except Unreadable:
            wire = None
        if wire is not None and wire.sender_record_id.strip():
            number = wire.sender_record_id.strip()
            return own_id(arrival.sender, wire.camera_ip, arrival.kind, number)
    if arrival.idempotency_key:
        return own_id(arrival.sender, "", arrival.kind, f"{arrival.idempotency_key}#{index}")
    return uuid7(arrival.received_at_ms, dice)
