"""One JSON Schema per topic, as files in `schemas/`: written by `python -m
bus.contracts.schema_files`, committed, compared by a test. Topics without a writer have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bus.contracts import topics
from bus.contracts.account_snapshot import SealedAccounts
from bus.contracts.alarm_states import AlarmRequest, AlarmState
from bus.contracts.alarms import (
    Acknowledged,
    Alarm,
    Candidate,
    Incident,
    Notified,
    Suppressed,
)
from bus.contracts.commands import CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.device_schemas import DRAFT, device_schemas
from bus.contracts.diverged_ranges import DivergedRange
from bus.contracts.headers import Reason
from bus.contracts.meters import Arrived, LatencyCell, QualityCell, Sent
from bus.contracts.mirror import MirrorConfirmed
from bus.contracts.plate_lists import ListCommand, ListRecord
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.video_segments import VideoSegment

FOLDER = Path(__file__).parent / "schemas"

STRUCTS: dict[str, type[msgspec.Struct]] = {
    topics.DATA_VIDEO_SEGMENT: VideoSegment,
    topics.CONTROL_WATCHLIST: WatchCommand,
    topics.CONTROL_ALARM: AlarmRequest,
    topics.CONTROL_LISTS: ListCommand,
    topics.CONTROL_REGISTER: RegisterEntry,
    topics.CONTROL_ACCOUNTS: SealedAccounts,
    topics.CONTROL_MIRROR_CONFIRMED: MirrorConfirmed,
    topics.CONTROL_MIRROR_TAILS: DivergedRange,
    topics.STATE_WATCHLIST: DecidedRule,
    topics.STATE_ALARM: AlarmState,
    topics.STATE_LISTS: ListRecord,
    topics.EVENT_CANDIDATE: Candidate,
    topics.EVENT_ALARM: Alarm,
    topics.EVENT_SUPPRESSED: Suppressed,
    topics.EVENT_INCIDENT: Incident,
    topics.EVENT_NOTIFIED: Notified,
    topics.EVENT_ACKNOWLEDGED: Acknowledged,
    topics.EVENT_COMMAND: CommandAnswer,
    topics.METER_SENT: Sent,
    topics.METER_ARRIVED: Arrived,
    topics.METER_LATENCY: LatencyCell,
    topics.METER_QUALITY: QualityCell,
}
# Topics whose messages come with later work; they exist so that rights and mirrors can be set up.
NOT_WRITTEN_YET = frozenset(
    {
        topics.CONTROL_STATISTICS,
        topics.CONTROL_VIDEO,
        topics.EVENT_STATISTICS,
        topics.EVENT_VIDEO_PROGRESS,
    }
)


def schemas() -> dict[str, dict[str, Any]]:
    """Topic -> schema of its messages' values."""
    devices = device_schemas()
    found = {name: _of_struct(name, struct) for name, struct in STRUCTS.items()}
    for topic in topics.TOPICS.values():
        if topic.schema in devices:
            found[topic.name] = devices[topic.schema]
    found[topics.QUARANTINE_RECORDS] = _quarantine()
    return found


def path_of(topic: str) -> Path:
    """The file of a topic's schema."""
    return FOLDER / f"{topic}.json"


def text_of(schema: dict[str, Any]) -> str:
    """As it lies in the file."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def write() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for topic, schema in schemas().items():
        path_of(topic).write_text(text_of(schema), encoding="utf-8")


def _of_struct(topic: str, struct: type[msgspec.Struct]) -> dict[str, Any]:
    (_,), found = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema = dict(found[struct.__name__])
    schema["description"] = " ".join(str(schema.get("description", "")).split())
    parts = {name: part for name, part in sorted(found.items()) if name != struct.__name__}
    if parts:
        schema["$defs"] = parts
    return {"$schema": DRAFT, "$id": f"urn:databus:{topics.TOPICS[topic].schema}", **schema}


def _quarantine() -> dict[str, Any]:
    """Any bytes: the value is what the device sent, the reason is in the headers."""
    return {
        "$schema": DRAFT,
        "$id": f"urn:databus:{topics.TOPICS[topics.QUARANTINE_RECORDS].schema}",
        "title": "A rejected record / 被拒绝的记录",
        "description": "The original bytes, which need not be JSON; the headers `reason`, `field` "
        "and `kind` say why. Reasons: " + ", ".join(reason.value for reason in Reason),
    }


if __name__ == "__main__":
    write()
