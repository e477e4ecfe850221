"""Where a recorded message belongs: its data topic, or the quarantine with its reason.

In: `Recorded`, the zone. Out: `Judged`. Never: sending, clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts import headers
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, DATA_VIDEO, QUARANTINE_RECORDS
from ingest.normalise.key import partition_key
from ingest.normalise.record import Envelope, normalise
from ingest.replay.lines import Recorded
from ingest.store.port import RejectedRow

TOPIC_OF_KIND = {"vehicle": DATA_VEHICLE, "face": DATA_FACE, "video": DATA_VIDEO}
SOURCE = "replay"


@dataclass(frozen=True, slots=True)
class Judged:
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


def judge(recorded: Recorded, zone: str) -> Judged:
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
    return Judged(
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
