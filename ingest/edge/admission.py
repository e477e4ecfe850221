"""One record at the edge: its identity, its verdict, its message for the bus. Pure.

In: a record's bytes and the circumstances of its arrival. Out: `AdmittedRecord`, for the spool
either way: valid records to their data topic, all others to the quarantine with their reason.
Never: I/O, the clock, random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from bus.domain.device_message import Unreadable
from bus.domain.identity import sender_scoped_id, uuid7
from bus.domain.kinds import TOPIC_OF_KIND
from bus.domain.parsed_message import ParsedMessage
from bus.domain.plates import left_out
from bus.domain.record_identity import own_identity
from ingest.edge.inline_pictures import extract_pictures, with_urls
from ingest.normalise import Envelope, normalise_message, partition_key, rejected_row
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

_NAMING_KEYS = tuple(
    f'"{key}"'.encode() for key in ("卡口编号", "抓拍时间", "抓拍设备地址", "车牌号码", "记录编号")
)


class PostedRecord(NamedTuple):
    """One record as it came: its bytes, and the pictures that came beside it, by wire key."""

    kind: str
    value: bytes
    pictures: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The circumstances of one request."""

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
    """A record ready for the spool, with the pictures to be kept before: name -> bytes. One that is
    not valid has its `message` still, to say where it is damaged."""

    record_id: str
    kind: str
    entry: SpoolEntry
    pictures: Mapping[str, bytes]
    camera_ip: str
    reason: str = ""
    field: str = ""
    warnings: Sequence[Diagnostic] = ()
    faults: Sequence[FieldFault] = ()
    is_clock_fault: bool = False
    message: ParsedMessage | None = None


class _Pictures(NamedTuple):
    """Those of one record by wire key: all that were given, those that are worth a word, those that
    are too large, and the names of the others."""

    given: Mapping[str, bytes]
    suspect: Sequence[str]
    lost: Sequence[str]

    @property
    def stored(self) -> dict[str, bytes]:
        """With bytes that are not too many."""
        return {key: one for key, one in self.given.items() if one and key not in self.lost}


def admit(
    posted: PostedRecord,
    index: int,
    request: RequestInfo,
    random_bytes: bytes,
    url_of: Callable[[str], str],
    *,
    may_warn: bool = True,
) -> AdmittedRecord:
    """Judge one record; `index` is its place in the request."""
    message = ParsedMessage(posted.value, posted.kind)
    envelope = Envelope(
        received_at_ms=request.received_at_ms,
        record_id=_identity(message, index, request, random_bytes),
        source=request.source,
        replayed=request.replayed,
        clock=request.clock,
    )
    pictures = _pictures(message, posted, request)
    row = normalise_message(
        message, envelope, None, request.zone, pictures_beside=any(pictures.given.values())
    )
    if isinstance(row, RejectedRow):
        return _rejected(row, message, request)
    return _admitted(row, message, posted, envelope, pictures, request, url_of, may_warn=may_warn)


def _pictures(message: ParsedMessage, posted: PostedRecord, request: RequestInfo) -> _Pictures:
    given = {**extract_pictures(message), **posted.pictures}
    suspect = [key for key, data in given.items() if _is_suspect(data, request)]
    lost = [key for key in suspect if len(given[key]) > request.max_picture_bytes]
    return _Pictures(given, suspect, lost)


def _admitted(
    row: RecordRow,
    message: ParsedMessage,
    posted: PostedRecord,
    envelope: Envelope,
    pictures: _Pictures,
    request: RequestInfo,
    url_of: Callable[[str], str],
    *,
    may_warn: bool,
) -> AdmittedRecord:
    """A valid one, unless it is too long with the addresses of its pictures."""
    is_clock_fault, faults = row.clock_off_ms != 0, faults_of(message)
    is_odd = bool(faults) or is_clock_fault or bool(left_out(row.plate_number))
    warnings: Sequence[Diagnostic] = ()
    if may_warn and (pictures.suspect or is_odd or _repeats_a_key(message.value)):
        warnings = _warnings(message, faults, posted, request)
    stored = pictures.stored
    names = {
        key: picture_name(
            request.day, row.checkpoint_id, row.record_id, ROLES.get(key, "other"), data
        )
        for key, data in stored.items()
    }
    body = with_urls(message, {key: url_of(name) for key, name in names.items()}, pictures.lost)
    if len(body) > request.max_record_bytes:
        reason = Reason.TOO_LARGE.value
        too_large = rejected_row(body, message.kind, envelope, reason, "", request.zone)
        return _rejected(too_large, message, request)
    return AdmittedRecord(
        row.record_id,
        message.kind,
        _valid_entry(row, message.kind, body, request),
        {names[key]: data for key, data in stored.items()},
        row.camera_ip,
        warnings=warnings,
        faults=faults,
        is_clock_fault=is_clock_fault,
    )


def _valid_entry(row: RecordRow, kind: str, body: bytes, request: RequestInfo) -> SpoolEntry:
    topic = TOPIC_OF_KIND[kind]
    return SpoolEntry(
        topic=topic,
        key=partition_key(row),
        value=body,
        headers=_headers(row.record_id, topic, request),
        timestamp_ms=request.received_at_ms,
        tally=f"{kind}/accepted",
        slot=_slot(row, kind),
    )


def _is_suspect(picture: bytes, request: RequestInfo) -> bool:
    """Whether `check-message` has something to say of a picture."""
    is_empty, is_large = not picture, len(picture) > request.max_picture_bytes
    return is_empty or is_large or extension(picture) == "bin"


def _repeats_a_key(value: bytes) -> bool:
    """Whether one of the keys that name a vehicle's passing seems to stand there twice; cheap."""
    return any(value.count(key) > 1 for key in _NAMING_KEYS)


def _warnings(
    message: ParsedMessage,
    faults_of_fields: Sequence[FieldFault],
    posted: PostedRecord,
    request: RequestInfo,
) -> list[Diagnostic]:
    """What is lost or changed of a record that is valid, in the words of `check-message`."""
    given = MessageContext(
        message.kind, request.zone, request.received_at_ms, request.clock, request.replayed,
        request.max_picture_bytes,
    )  # fmt: skip
    faults = losses(message, given, faults_of_fields)
    for key, data in posted.pictures.items():
        faults += picture_faults(key, data, request.max_picture_bytes)
    return faults


def _rejected(row: RejectedRow, message: ParsedMessage, request: RequestInfo) -> AdmittedRecord:
    """For the quarantine, with the original bytes as far as a message may be long."""
    kind = message.kind
    added = [
        *_headers(row.record_id, topics.QUARANTINE_RECORDS, request),
        (headers.KIND, kind.encode()),
        (headers.REASON, row.reason.encode()),
        (headers.FIELD, row.field.encode()),
    ]
    counted = row
    if len(row.body) > request.max_record_bytes:
        added.append((headers.TRUNCATED, str(len(row.body)).encode()))
        counted = _as_truncated(row, kind, request)
    entry = SpoolEntry(
        topic=topics.QUARANTINE_RECORDS,
        key=None,
        value=row.body[: request.max_record_bytes],
        headers=added,
        timestamp_ms=request.received_at_ms,
        tally=f"{kind}/rejected/{row.reason}",
        slot=_slot(counted, kind),
    )
    return AdmittedRecord(
        row.record_id, kind, entry, {}, row.camera_ip, row.reason, row.field, message=message
    )


def _as_truncated(row: RejectedRow, kind: str, request: RequestInfo) -> RejectedRow:
    """What ingest will see of a record that is longer than a message may be."""
    envelope = Envelope(received_at_ms=row.received_at_ms, record_id=row.record_id)
    body = row.body[: request.max_record_bytes]
    return rejected_row(body, kind, envelope, row.reason, row.field, request.zone)


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


def _identity(
    message: ParsedMessage, index: int, request: RequestInfo, random_bytes: bytes
) -> str:
    """The sender's own number if it has one, else the request's key, else a new UUIDv7."""
    with suppress(Unreadable):
        found = own_identity(message.wire(), message.kind, request.sender)
        if found:
            return found
    if request.idempotency_key:
        key = f"{request.idempotency_key}#{index}"
        return sender_scoped_id(request.sender, "", message.kind, key)
    return uuid7(request.received_at_ms, random_bytes)
