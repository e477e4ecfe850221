"""One record at the edge: its identity, its verdict, its message for the bus. Pure.

In: a record's bytes and the circumstances of its arrival. Out: `AdmittedRecord`, for the spool
either way: valid records to their data topic, all others to the quarantine with their reason.
Never: I/O, the clock, random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from bus.domain.device_message import Unreadable, read
from bus.domain.identity import sender_scoped_id, uuid7
from bus.domain.kinds import TOPIC_OF_KIND
from bus.domain.plates import left_out
from bus.domain.record_identity import own_identity
from ingest.edge.inline_pictures import extract_pictures, has_inline, with_urls
from ingest.normalise import Envelope, normalise, partition_key, rejected_row
from ingest.normalise.clock import DEFAULT, ClockLimits
from ingest.normalise.diagnostics import (
    MAX_PICTURE_BYTES,
    Diagnostic,
    MessageContext,
    losses,
    picture_faults,
)
from ingest.normalise.field_faults import FieldFault, faults_of
from ingest.pictures.names import ROLES, extension, picture_name
from ingest.spool.frame import SpoolEntry
from ingest.store.port import RecordRow, RejectedRow

_OWN_NUMBER = "记录编号".encode()
_NAMING_KEYS = tuple(
    f'"{key}"'.encode() for key in ("卡口编号", "抓拍时间", "抓拍设备地址", "车牌号码", "记录编号")
)
_OWN_NUMBER_ESCAPED = b"\\u8bb0"


@dataclass(frozen=True, slots=True)
class RequestInfo:
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
class AdmittedRecord:
    """A record ready for the spool, with the pictures to be kept before: name -> bytes."""

    record_id: str
    entry: SpoolEntry
    pictures: Mapping[str, bytes]
    camera_ip: str
    reason: str = ""
    field: str = ""
    warnings: Sequence[Diagnostic] = ()
    faults: Sequence[FieldFault] = ()
    is_clock_fault: bool = False


def admit(
    value: bytes,
    index: int,
    request: RequestInfo,
    random_bytes: bytes,
    attachments: Mapping[str, bytes],
    url_of: Callable[[str], str],
    *,
    may_warn: bool = True,
) -> AdmittedRecord:
    """Judge one record; `beside` are pictures of other parts of the request, by wire key."""
    record_id = _identity(value, index, request, random_bytes)
    envelope = Envelope(
        received_at_ms=request.received_at_ms,
        record_id=record_id,
        source=request.source,
        replayed=request.replayed,
        clock=request.clock,
    )
    given = {**(extract_pictures(value) if has_inline(value) else {}), **attachments}
    pictures = {key: data for key, data in given.items() if data}
    row = normalise(
        value, request.kind, envelope, None, request.zone, pictures_beside=bool(pictures)
    )
    if isinstance(row, RejectedRow):
        return _rejected(row, request)
    is_clock_fault, faults = row.clock_off_ms != 0, faults_of(value, request.kind)
    warnings: Sequence[Diagnostic] = ()
    suspect = [key for key, data in given.items() if _is_suspect(data, request)]
    is_odd = bool(faults) or is_clock_fault or bool(left_out(row.plate_number))
    if may_warn and (suspect or is_odd or _repeats_a_key(value)):
        warnings = _warnings(value, request, attachments)
    lost = [key for key in suspect if len(given[key]) > request.max_picture_bytes]
    pictures = {key: data for key, data in pictures.items() if key not in lost}
    names = {
        key: picture_name(request.day, row.checkpoint_id, record_id, ROLES.get(key, "other"), data)
        for key, data in pictures.items()
    }
    body = with_urls(value, {key: url_of(name) for key, name in names.items()}, lost)
    if len(body) > request.max_record_bytes:
        reason = Reason.TOO_LARGE.value
        return _rejected(
            rejected_row(body, request.kind, envelope, reason, "", request.zone), request
        )
    entry = SpoolEntry(
        topic=TOPIC_OF_KIND[request.kind],
        key=partition_key(row),
        value=body,
        headers=_headers(record_id, TOPIC_OF_KIND[request.kind], request),
        timestamp_ms=request.received_at_ms,
        tally=f"{request.kind}/accepted",
        slot=_slot(row, request.kind),
    )
    kept = {names[key]: data for key, data in pictures.items()}
    return AdmittedRecord(
        record_id,
        entry,
        kept,
        row.camera_ip,
        warnings=warnings,
        faults=faults,
        is_clock_fault=is_clock_fault,
    )


def _is_suspect(picture: bytes, request: RequestInfo) -> bool:
    """Whether `check-message` has something to say of a picture."""
    is_empty, is_large = not picture, len(picture) > request.max_picture_bytes
    return is_empty or is_large or extension(picture) == "bin"


def _repeats_a_key(value: bytes) -> bool:
    """Whether one of the keys that name a vehicle's passing seems to stand there twice; cheap."""
    return any(value.count(key) > 1 for key in _NAMING_KEYS)


def _warnings(
    value: bytes, request: RequestInfo, attachments: Mapping[str, bytes]
) -> list[Diagnostic]:
    """What is lost or changed of a record that is valid, in the words of `check-message`."""
    faults = losses(
        value,
        MessageContext(
            request.kind,
            request.zone,
            request.received_at_ms,
            request.clock,
            request.replayed,
            request.max_picture_bytes,
        ),
    )
    for key, data in attachments.items():
        faults += picture_faults(key, data, request.max_picture_bytes)
    return faults


def _rejected(row: RejectedRow, request: RequestInfo) -> AdmittedRecord:
    """For the quarantine, with the original bytes as far as a message may be long."""
    added = [
        *_headers(row.record_id, topics.QUARANTINE_RECORDS, request),
        (headers.KIND, request.kind.encode()),
        (headers.REASON, row.reason.encode()),
        (headers.FIELD, row.field.encode()),
    ]
    counted = row
    if len(row.body) > request.max_record_bytes:
        added.append((headers.TRUNCATED, str(len(row.body)).encode()))
        counted = _as_truncated(row, request)
    entry = SpoolEntry(
        topic=topics.QUARANTINE_RECORDS,
        key=None,
        value=row.body[: request.max_record_bytes],
        headers=added,
        timestamp_ms=request.received_at_ms,
        tally=f"{request.kind}/rejected/{row.reason}",
        slot=_slot(counted, request.kind),
    )
    return AdmittedRecord(row.record_id, entry, {}, row.camera_ip, row.reason, row.field)


def _as_truncated(row: RejectedRow, request: RequestInfo) -> RejectedRow:
    """What ingest will see of a record that is longer than a message may be."""
    envelope = Envelope(received_at_ms=row.received_at_ms, record_id=row.record_id)
    body = row.body[: request.max_record_bytes]
    return rejected_row(body, request.kind, envelope, row.reason, row.field, request.zone)


def _slot(row: RecordRow | RejectedRow, kind: str) -> tuple[str, str, str, int]:
    """Where ingest will count the message. What no message could carry is written as it would."""
    _, camera_ip, recognizer_ip, minute_ms = row.quality_key
    return kind, _plain(camera_ip), _plain(recognizer_ip), minute_ms


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _headers(record_id: str, topic: str, request: RequestInfo) -> list[tuple[str, bytes]]:
    added = [
        (headers.RECORD_ID, record_id.encode()),
        (headers.SCHEMA, topics.TOPICS[topic].schema.encode()),
        (headers.RECEIVED_AT, str(request.received_at_ms).encode()),
        (headers.SOURCE, request.source.encode()),
        (headers.SITE, request.site.encode()),
    ]
    if request.replayed:
        added.append((headers.REPLAY, b"1"))
    return added


def _identity(value: bytes, index: int, request: RequestInfo, random_bytes: bytes) -> str:
    """The sender's own number if it has one, else the request's key, else a new UUIDv7."""
    if _OWN_NUMBER in value or _OWN_NUMBER_ESCAPED in value:
        with suppress(Unreadable):
            found = own_identity(read(value, request.kind), request.kind, request.sender)
            if found:
                return found
    if request.idempotency_key:
        return sender_scoped_id(
            request.sender, "", request.kind, f"{request.idempotency_key}#{index}"
        )
    return uuid7(request.received_at_ms, random_bytes)
