"""Foreign records on the topics that the streams read at their start and keep totals of."""

from __future__ import annotations

import msgspec
import pytest

from bus.client.model import ConsumedRecord
from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from bus.contracts.topics import EVENT_INCIDENT
from spark_apps.apps.latency import DECODER
from spark_apps.batches.message import decoded
from spark_apps.publish.incidents import _readable

CELL = LatencyCell(kind="face", district_id="d", camera_ip="c", minute_ms=0, buckets={3: 1, -9: 2})
INCIDENT = Incident(incident_id="i", kind="latency", state="open", opened_at_ms=1)
GOOD = msgspec.json.encode(INCIDENT)


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"x", b"[]", GOOD[:-3], GOOD.replace(b'"i"', '"卡口"'.encode("gb18030")),
        GOOD[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=["tombstone", "empty", "text", "list", "cut", "another encoding", "nested"],
)  # fmt: skip
def test_what_is_no_incident_keeps_no_application_from_starting(value: bytes | None) -> None:
    """The whole topic is read at every start: before, one such message ended each of them."""
    messages = [ConsumedRecord(EVENT_INCIDENT, 0, 7, 1, None, one, ()) for one in (value, GOOD)]
    told = [incident for message in messages for incident in _readable(message)]
    assert told == [INCIDENT]


@pytest.mark.parametrize("buckets", [{1 << 62: 1}, {0: 1 << 63}, {-(1 << 40): 1}])
def test_a_histogram_that_nobody_can_compute_is_passed_over(buckets: dict[int, int]) -> None:
    """Its bounds are powers of two of its numbers: one of 62 bits would take all memory."""
    made = {**msgspec.to_builtins(CELL), "buckets": {str(k): n for k, n in buckets.items()}}
    values = [msgspec.json.encode(made), msgspec.json.encode(CELL)]
    assert list(decoded(values, DECODER)) == [CELL]
