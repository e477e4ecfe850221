"""Rows, positions and counters as the tests of this folder make them."""

from __future__ import annotations

from bus.contracts.meters import Arrived, QualityCell, Sent
from ingest.store.port import Position, RecordRow, RejectedRow

MINUTE = 1_503_566_700_000


def row(number: int, **changes: object) -> RecordRow:
    fields: dict[str, object] = {
        "record_id": f"id-{number}",
        "kind": "vehicle",
        "checkpoint_id": "110110#1#0#0",
        "district_id": "west",
        "camera_ip": "10.0.0.1",
        "recognizer_ip": "10.0.1.1",
        "captured_at_ms": MINUTE + number,
        "received_at_ms": MINUTE + number + 50,
        "plate_number": "浙 AWL999",
        "plate_key": "浙AWL999",
        "partly_read": True,
        "body": b'{"a": 1}',
    }
    return RecordRow(**{**fields, **changes})  # type: ignore[arg-type]


def rejected(number: int, reason: str = "not-json") -> RejectedRow:
    return RejectedRow(
        record_id=f"bad-{number}", kind="vehicle", reason=reason, field="", camera_ip="10.0.0.1",
        recognizer_ip="", checkpoint_id="", source="10.9.9.9", received_at_ms=MINUTE + number,
        body=b"{", captured_at_ms=MINUTE,
    )  # fmt: skip


def position(
    end: int, start: int = -1, partition: int = 0, application: str = "ingest"
) -> Position:
    return Position(
        application=application, cluster_id="c", topic="data.vehicle", topic_id="t",
        partition=partition, end_offset=end, start_offset=start,
    )  # fmt: skip


def quality(**changes: object) -> QualityCell:
    fields: dict[str, object] = {
        "kind": "vehicle", "camera_ip": "10.0.0.1", "recognizer_ip": "", "minute_ms": MINUTE,
        "sent": 0, "arrived": 0, "valid": 0, "rejected": {},
    }  # fmt: skip
    return QualityCell(**{**fields, **changes})  # type: ignore[arg-type]


def sent(count: int, epoch: int = 1) -> Sent:
    return Sent(
        producer="server-1",
        epoch=epoch,
        kind="vehicle",
        camera_ip="10.0.0.1",
        minute_ms=MINUTE,
        sent=count,
    )


def accepted(count: int, epoch: int = 1) -> Arrived:
    return Arrived(edge="e", epoch=epoch, kind="vehicle", camera_ip="10.0.0.1", minute_ms=MINUTE,
                   arrived=count)  # fmt: skip
