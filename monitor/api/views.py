"""Rows of the store as the API shows them (pure): English keys, times in the site's own clock.

In: rows, register, zone. Out: plain dicts. Never: HTTP, languages of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.alarms import Alarm, Incident
from bus.contracts.commands import WatchCommand
from bus.contracts.headers import RecordKind
from bus.contracts.pictures import PICTURES_PREFIX, addresses_in, name_in_address
from bus.contracts.register import Register
from bus.domain.alarm_life import STAGES as ALARM_STAGES
from bus.domain.expressions.to_text import to_text
from bus.domain.plates import plate_text
from bus.domain.rule_demand import UNINDEXED_WARNING, demand_of
from ingest.store.port import RecordRow, RejectedRow
from monitor.live.live_record import LiveRecord

Row = dict[str, Any]
_NO_COPIES: Mapping[str, str] = MappingProxyType({})
KINDS = ("", *(kind.value for kind in RecordKind))
"""What a question may name as a kind of data; empty: all of them."""
STAGES = ("", "unfinished", *ALARM_STAGES)
SEVERITIES = ("", "critical", "warning", "info")
MAX_TEXT = 256  # characters of one value; an address has to fit into a message
LAST_TIME_MS = 253_402_300_799_999  # the last of the year 9999 in UTC


def clock(time_ms: int, zone: ZoneInfo) -> str:
    """`2026-11-21 08:03:01.250` in the site's zone; empty for 0, the number itself for a time that
    no calendar has.
    """
    if time_ms <= 0:
        return ""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, zone)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def parse_time(text: str, zone: ZoneInfo) -> int:
    """Epoch milliseconds, or ISO time in the site's zone; 0 for an empty text. Raises
    `ValueError`, also for a time that no store could compare.
    """
    text = text.strip()
    if not text:
        return 0
    try:
        found_ms = int(text) if text.isdecimal() and len(text) > 8 else _iso_ms(text, zone)
    except OverflowError as error:  # the first and last day of the calendar, in a zone beside UTC
        raise ValueError(str(error)) from error
    if abs(found_ms) > LAST_TIME_MS:
        raise ValueError(f"beyond {LAST_TIME_MS} ms, the end of the calendar")
    return found_ms


def _iso_ms(text: str, zone: ZoneInfo) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)


def local_picture(url: str) -> str:
    """The same picture at this console's own address; empty when it is not in our picture store."""
    name = name_in_address(url)
    return PICTURES_PREFIX + name if name else ""


def place(checkpoint_id: str, register: Register) -> Row:
    """Names of a checkpoint in both languages; of one that the register does not know they say so,
    beside its id."""
    checkpoint = register.checkpoint_by_id.get(checkpoint_id)
    unknown = bool(checkpoint_id) and checkpoint is None
    return {
        "checkpoint_id": checkpoint_id,
        "checkpoint": checkpoint.name if checkpoint else f"未登记 {checkpoint_id}" * unknown,
        "checkpoint_en": checkpoint.name_en if checkpoint else f"unknown {checkpoint_id}" * unknown,
        "district_id": checkpoint.district_id if checkpoint else "",
    }


def record_row(
    row: RecordRow, register: Register, zone: ZoneInfo, diverged_epoch: int = 0
) -> Row:
    """One record of a list. `diverged_epoch`: the site epoch in which only this site had it; 0:
    none."""
    return {
        "record_id": row.record_id,
        "kind": row.kind,
        **place(row.checkpoint_id, register),
        "district_id": row.district_id,
        "camera_ip": row.camera_ip,
        "recognizer_ip": row.recognizer_ip,
        "captured_at_ms": row.captured_at_ms,
        "captured_at": clock(row.captured_at_ms, zone),
        "received_at": clock(row.received_at_ms, zone),
        "stored_at": clock(row.stored_at_ms, zone),
        "latency_ms": (
            None
            if row.is_ordered_by_arrival or row.has_untrue_arrival
            else row.stored_at_ms - row.captured_at_ms
        ),
        "clock_off_ms": row.clock_off_ms,
        "plate": plate_text(row.plate_number),
        "plate_number": row.plate_number,
        "plate_color": row.plate_color,
        "vehicle_color": row.vehicle_color,
        "vehicle_type": row.vehicle_type,
        "vehicle_brand": row.vehicle_brand,
        "vehicle_series": row.vehicle_series,
        "picture": local_picture(row.picture_url),
        "picture_url": row.picture_url,
        "partly_read": row.partly_read,
        "replayed": row.replayed,
        "tail_epoch": diverged_epoch,
    }


def record_detail(
    row: RecordRow, register: Register, zone: ZoneInfo, diverged_epoch: int = 0
) -> Row:
    """One record with everything the device wrote and all its pictures."""
    body = raw_json(row.body)
    return {
        **record_row(row, register, zone, diverged_epoch),
        "body": body if body is not None else row.body.decode("utf-8", "replace"),
        "pictures": pictures(body, row.picture_url),
    }


def raw_json(body: bytes) -> Any:
    """The device's JSON, or None."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def pictures(body: Any, first_url: str, copies: Mapping[str, str] = _NO_COPIES) -> list[Row]:
    """Every picture of a record: the key it stands under, its address as written and here, where
    a copy is preferred."""
    found = addresses_in(body if isinstance(body, dict) else {}, first_url)
    return [
        {"key": key, "url": url, "picture": local_picture(copies.get(url, url))}
        for url, key in found.items()
    ]


def rejected_row(
    row: RejectedRow, register: Register, zone: ZoneInfo, diverged_epoch: int = 0
) -> Row:
    """One rejected record, its bytes as text; `diverged_epoch` as in `record_row`."""
    return {
        "record_id": row.record_id,
        "kind": row.kind,
        "reason": row.reason,
        "field": row.field,
        **place(row.checkpoint_id, register),
        "camera_ip": row.camera_ip,
        "recognizer_ip": row.recognizer_ip,
        "source": row.source,
        "received_at": clock(row.received_at_ms, zone),
        "stored_at": clock(row.stored_at_ms, zone),
        "body": row.body.decode("utf-8", "replace"),
        "body_bytes": len(row.body),
        "tail_epoch": diverged_epoch,
    }


def alarm_row(alarm: Alarm, register: Register, zone: ZoneInfo) -> Row:
    """One alarm with its place, as a list shows it: without its record."""
    checkpoint = register.checkpoint_by_id.get(alarm.checkpoint_id)
    return {
        **{name: value for name, value in msgspec.to_builtins(alarm).items() if name != "record"},
        "plate": plate_text(alarm.plate_number),
        **place(alarm.checkpoint_id, register),
        "latitude": checkpoint.latitude if checkpoint else None,
        "longitude": checkpoint.longitude if checkpoint else None,
        "captured_at": clock(alarm.captured_at_ms, zone),
        "raised_at": clock(alarm.raised_at_ms, zone),
        "reaction_ms": alarm.raised_at_ms - alarm.captured_at_ms,
        "picture": local_picture(alarm.copies.get(alarm.picture_url, alarm.picture_url)),
    }


def alarm_detail(alarm: Alarm, register: Register, zone: ZoneInfo) -> Row:
    """One alarm with its own copy of what the device wrote, and its pictures: they are there when
    the record is not. `body` is None where the alarm has no copy."""
    body = raw_json(alarm.record.encode("utf-8", "surrogatepass")) if alarm.record else None
    return {
        **alarm_row(alarm, register, zone),
        "body": body,
        "pictures": pictures(body, alarm.picture_url, alarm.copies),
    }


def newest_incidents(stored: Iterable[Incident], live: Iterable[Incident]) -> list[Incident]:
    """Both, newest first, each once, with its end if either knows it: while the dispatcher is dead,
    what the watch says of it is on the topic and not in the store."""
    found: dict[str, Incident] = {}
    for one in (*stored, *live):
        known = found.get(one.incident_id)
        if known is None or known.state == "open":
            found[one.incident_id] = one
    return sorted(found.values(), key=lambda one: one.opened_at_ms, reverse=True)


def incident_row(incident: Incident, register: Register, zone: ZoneInfo) -> Row:
    """One incident with its place."""
    return {
        **msgspec.to_builtins(incident),
        **place(incident.checkpoint_id, register),
        "district_id": incident.district_id,
        "opened_at": clock(incident.opened_at_ms, zone),
        "closed_at": clock(incident.closed_at_ms, zone),
    }


def rule_row(command: WatchCommand, zone: ZoneInfo) -> Row:
    """One rule of the watch list; an open end of its time is an empty text, as is `where_text` of a
    rule without a tree."""
    return {
        **msgspec.to_builtins(msgspec.structs.asdict(command)),
        "where_text": to_text(command.where, zone.key) if command.where is not None else "",
        "warnings": [UNINDEXED_WARNING] if demand_of(command).unindexed else [],
        "valid_from": clock(command.valid_from_ms, zone)[:16],
        "valid_until": clock(command.valid_until_ms, zone)[:16],
    }


def live_record_row(one: LiveRecord, register: Register, zone: ZoneInfo) -> Row:
    """One live record."""
    return {
        "record_id": one.record_id,
        "kind": one.kind,
        **place(one.checkpoint_id, register),
        "camera_ip": one.camera_ip,
        "captured_at_ms": one.captured_at_ms,
        "captured_at": clock(one.captured_at_ms, zone),
        "plate": plate_text(one.plate_number),
        "plate_number": one.plate_number,
        "features": one.features,
        "picture": local_picture(one.picture_url),
    }
