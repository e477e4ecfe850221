"""Where a recorded message belongs: its data topic, or the quarantine with its reason.

In: `Recorded`, the zone. Out: `RoutedRecord`. Never: sending, clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts import headers
from bus.contracts.topics import QUARANTINE_RECORDS
from bus.domain.kinds import TOPIC_OF_KIND
from ingest.normalise.record import Envelope, normalise, partition_key
from ingest.senders.replay.lines import Recorded
from ingest.store.port import RejectedRow

SOURCE = "replay"


@dataclass(frozen=True, slots=True)
class RoutedRecord:
    """A message ready for the bus. `reason` is empty for a valid one."""

    topic: str
    key: bytes | None
    headers: tuple[tuple[str, str], ...]
    kind: str
    camera_ip: str
    recognizer_ip: str
    checkpoint_id: str
    captured_at_ms: int
    reason: str


def route(recorded: Recorded, zone: str) -> RoutedRecord:
    """The same judgement as the edge's, so that a replay stores what the first time stored."""
    envelope = Envelope(received_at_ms=0, record_id=recorded.record_id, replayed=True)
    row = normalise(recorded.body, recorded.kind, envelope, None, zone)
    fields: list[tuple[str, str]] = [
        (headers.RECORD_ID, recorded.record_id),
        (headers.SOURCE, SOURCE),
        (headers.REPLAY, "1"),
        (headers.KIND, recorded.kind),
    ]
    reason = ""
    if isinstance(row, RejectedRow):
        reason = row.reason
        fields += [(headers.REASON, row.reason), (headers.FIELD, row.field)]
    return RoutedRecord(
        topic=QUARANTINE_RECORDS if reason else TOPIC_OF_KIND[recorded.kind],
        key=None if isinstance(row, RejectedRow) else partition_key(row),
        headers=tuple(fields),
        kind=recorded.kind,
        camera_ip=row.camera_ip,
        recognizer_ip=row.recognizer_ip,
        checkpoint_id=row.checkpoint_id,
        captured_at_ms=row.captured_at_ms,
        reason=reason,
    )
