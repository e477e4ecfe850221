"""What is said of films reaches the store with the batch that it came in."""

from __future__ import annotations

import msgspec

from bus.contracts.topics import DATA_VIDEO_SEGMENT
from bus.contracts.video_segments import Keyframe, VideoSegment
from spark_apps.apps.ingest import store_batch
from tests.spark_apps.apps.test_ingest import vehicle
from tests.spark_apps.test_judge import batch, both_ways, row

SEGMENT = VideoSegment(
    segment_id="10.0.0.1-5", camera_ip="10.0.0.1", state="stored", start_ms=5, end_ms=9,
    codec="h265", keyframes=(Keyframe(700, 5), Keyframe(900, 7, 8)),
)  # fmt: skip


def test_segments_are_read_the_same_in_the_driver_and_in_executors_and_count_as_no_record() -> None:
    values = [msgspec.json.encode(SEGMENT), b"{}", None, b"\xff"]
    rows = [row(DATA_VIDEO_SEGMENT, offset, value) for offset, value in enumerate(values)]
    here, there = both_ways(batch([row("data.vehicle", 0, vehicle().value), *rows]))
    assert here == there
    assert here.segments == [SEGMENT]
    assert len(store_batch(here.records).rows) == 1
    assert [cell.arrived for cell in store_batch(here.records).quality] == [1]
