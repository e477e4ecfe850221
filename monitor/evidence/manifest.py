"""What a package of evidence says of itself: `manifest.json`, and what its page shows. Pure.

In: rows of the store, an alarm, the register. Out: structs; times are ISO 8601 with the site's
offset. Never: a picture's bytes, a guess where something is not known: it is empty then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm, ListedFace, ListedPlate, ReadingPrice
from bus.contracts.pictures import keys_of_pictures
from bus.contracts.register import Register
from bus.domain.plates import plate_text
from ingest.store.port import RecordRow

FORMAT = "databus-evidence/1"
_NO_COPIES: Mapping[str, str] = {}


class EvidencePicture(msgspec.Struct, kw_only=True):
    """A picture that a record names: under which of its keys, its address as written, the file in
    the package; without one, why."""

    key: str
    url: str
    file: str = ""
    missing: str = ""


class EvidenceRecord(msgspec.Struct, kw_only=True):
    """One record. `captured_at` is the device's clock as it wrote it, `captured_at_corrected` what
    the bus took for it where that clock was known to be off, `received_at` the clock of the server
    that took the record, `message` the file with the device's own bytes."""

    record_id: str
    kind: str
    plate: str
    checkpoint_id: str
    checkpoint: str
    camera_ip: str
    recognizer_ip: str
    captured_at: str
    captured_at_corrected: str
    received_at: str
    stored_at: str
    message: str = ""
    pictures: list[EvidencePicture] = []


class EvidenceStep(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did about the alarm: taken, judged, commented on, closed."""

    at: str
    by: str
    what: str
    stage: str
    to: str = ""
    why: str = ""
    result: str = ""
    text: str = ""
    case: str = ""


class EvidenceAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is a package: which rule, what of the record it asked for; `misread` where another
    plate was read than is meant; `listed`: the line of a list, `resembled`: the face of a gallery,
    as these were then. `case`, `case_target`: as of the alarm."""

    alarm_id: str
    rule_id: str
    rule_name: str
    severity: str
    raised_at: str
    attributes: dict[str, str]
    misread: ReadingPrice | None = None
    listed: ListedPlate | None = None
    resembled: ListedFace | None = None
    case: str = ""
    case_target: str = ""
    stage: str = "open"
    owner: str = ""
    history: list[EvidenceStep] = []


class EvidenceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the package and the hash of its bytes."""

    name: str
    size_bytes: int
    sha256: str


class EvidenceManifest(msgspec.Struct, kw_only=True):
    """`about` is the question: an alarm's id, or a plate and its time. `files`: all but the
    manifest itself and `SHA256SUMS`, which has its hash, too."""

    made_at: str
    made_by: str
    site: str
    about: dict[str, str]
    alarm: EvidenceAlarm | None
    records: list[EvidenceRecord]
    files: list[EvidenceFile] = []
    format: str = FORMAT


class RecordSource(msgspec.Struct, frozen=True, kw_only=True):
    """A record before it is packed: with the device's bytes, and where we keep copies of pictures
    (address in the record → ours)."""

    record: EvidenceRecord
    message: bytes
    copies: Mapping[str, str] = _NO_COPIES


def moment(time_ms: int, zone: ZoneInfo) -> str:
    """Empty for a time that is not known or that no calendar has."""
    if time_ms <= 0:
        return ""
    try:
        return datetime.fromtimestamp(time_ms / 1000, zone).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""


def of_record(row: RecordRow, register: Register, zone: ZoneInfo) -> RecordSource:
    """A record of the store."""
    record = EvidenceRecord(
        record_id=row.record_id,
        kind=row.kind,
        plate=plate_text(row.plate_number),
        checkpoint_id=row.checkpoint_id,
        checkpoint=_name_of(row.checkpoint_id, register),
        camera_ip=row.camera_ip,
        recognizer_ip=row.recognizer_ip,
        captured_at=moment(row.claimed_at_ms, zone),
        captured_at_corrected=moment(row.captured_at_ms, zone) if row.clock_off_ms else "",
        received_at=moment(row.received_at_ms, zone),
        stored_at=moment(row.stored_at_ms, zone),
        pictures=_pictures(row.body, row.picture_url),
    )
    return RecordSource(record=record, message=row.body)


def of_alarm(
    alarm: Alarm, row: RecordRow | None, register: Register, zone: ZoneInfo
) -> RecordSource:
    """The record of an alarm: the alarm's own copy, which is there when the store has forgotten the
    record; what only the store knows where it has not."""
    message = alarm.record.encode("utf-8", "surrogatepass")
    if row is not None:
        stored = of_record(row, register, zone)
        return msgspec.structs.replace(
            stored, message=message or stored.message, copies=alarm.copies
        )
    record = EvidenceRecord(
        record_id=alarm.record_id,
        kind=alarm.kind,
        plate=plate_text(alarm.plate_number),
        checkpoint_id=alarm.checkpoint_id,
        checkpoint=_name_of(alarm.checkpoint_id, register),
        camera_ip=alarm.camera_ip,
        recognizer_ip="",
        captured_at=moment(alarm.captured_at_ms, zone),
        captured_at_corrected="",
        received_at=moment(alarm.received_at_ms, zone),
        stored_at="",
        pictures=_pictures(message, alarm.picture_url),
    )
    return RecordSource(record=record, message=message, copies=alarm.copies)


def evidence_alarm(alarm: Alarm, zone: ZoneInfo, state: AlarmState) -> EvidenceAlarm:
    """What the package says of the alarm, and of all that was done about it."""
    return EvidenceAlarm(
        alarm_id=alarm.alarm_id,
        rule_id=alarm.rule_id,
        rule_name=alarm.rule_name,
        severity=alarm.severity,
        raised_at=moment(alarm.raised_at_ms, zone),
        attributes=alarm.attributes,
        misread=alarm.misread,
        listed=alarm.listed,
        resembled=alarm.resembled,
        case=alarm.case,
        case_target=alarm.case_target,
        stage=state.stage,
        owner=state.owner,
        history=[
            EvidenceStep(
                at=moment(one.at_ms, zone), by=one.by, what=one.op, stage=one.stage, to=one.to,
                why=one.why, result=one.result, text=one.text, case=one.case,
            )
            for one in state.history
        ],
    )  # fmt: skip


def _pictures(message: bytes, first_url: str) -> list[EvidencePicture]:
    return [
        EvidencePicture(key=key, url=url)
        for url, key in keys_of_pictures(message, first_url).items()
    ]


def _name_of(checkpoint_id: str, register: Register) -> str:
    known = register.checkpoint_by_id.get(checkpoint_id)
    return known.name if known else ""
