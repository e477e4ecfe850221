"""One record at the edge: its identity, its verdict, its message for the bus. Pure.

In: a record's bytes and the circumstances of its arrival. Out: `Taken`, for the spool either way:
valid records to their data topic, all others to the quarantine with their reason. Never: I/O, the
clock, dice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from ingest.edge.inline import has_inline, inline_pictures, with_urls
from ingest.normalise import Envelope, normalise, own_id, partition_key, rejected_row, uuid7
from ingest.normalise.wire import Unreadable, read
from ingest.pictures.names import ROLES, picture_name
from ingest.spool import Entry
from ingest.store.port import RejectedRow

DATA_TOPICS = {
    "vehicle": topics.DATA_VEHICLE,
    "face": topics.DATA_FACE,
    "video": topics.DATA_VIDEO,
}
_OWN_NUMBER = "记录编号".encode()
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


@dataclass(frozen=True, slots=True)
class Taken:
    """A record ready for the spool, with the pictures to be kept before: name -> bytes."""

    record_id: str
    entry: Entry
    pictures: Mapping[str, bytes]
    camera_ip: str
    reason: str = ""
    field: str = ""


def take(
    value: bytes,
    index: int,
    arrival: Arrival,
    dice: bytes,
    beside: Mapping[str, bytes],
    url_of: Callable[[str], str],
) -> Taken:
    """Judge one record; `beside` are pictures of other parts of the request, by wire key."""
    record_id = _identity(value, index, arrival, dice)
    envelope = Envelope(
        received_at_ms=arrival.received_at_ms,
        record_id=record_id,
        source=arrival.source,
        replayed=arrival.replayed,
    )
    pictures = {**(inline_pictures(value) if has_inline(value) else {}), **beside}
    row = normalise(
        value, arrival.kind, envelope, None, arrival.zone, pictures_beside=bool(pictures)
    )
    if isinstance(row, RejectedRow):
        return _rejected(row, arrival)
    names = {
        key: picture_name(arrival.day, row.checkpoint_id, record_id, ROLES.get(key, "other"), data)
        for key, data in pictures.items()
    }
    body = with_urls(value, {key: url_of(name) for key, name in names.items()})
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
    return Taken(
        record_id, entry, {names[key]: data for key, data in pictures.items()}, row.camera_ip
    )


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
