"""Pieces of film in either store: found by time, deleted once and for all."""

from __future__ import annotations

import random

from msgspec.structs import replace

from bus.contracts.video_segments import MAX_SEGMENT_MS, Keyframe, VideoSegment
from ingest.store.open import open_store
from ingest.store.port import RecordStore, StoreBatch
from tests.conftest import SEED
from tests.ingest.store.made import position

START = 1_700_000_000_000
FOREVER = 0


def piece(number: int, camera: str = "10.0.0.1") -> VideoSegment:
    start_ms = START + 10_000 * number
    return VideoSegment(
        segment_id=f"{camera}-{start_ms}", camera_ip=camera, state="stored", start_ms=start_ms,
        end_ms=start_ms + 10_000, name=f"{camera}/{start_ms}.mp4", codec="h264", size_bytes=7,
        keyframes=(Keyframe(641, start_ms, 5),),
    )  # fmt: skip


def put(store: RecordStore, end: int, *segments: VideoSegment) -> None:
    store.apply(StoreBatch(segments=segments), [position(end, end - 1)])


def test_segments_of_a_camera_are_found_by_the_span_that_they_reach_into(store: RecordStore):
    put(store, 1, *(piece(n) for n in range(5)), piece(2, "10.0.0.2"), piece(2, "10.0.0.11"))
    found = store.segments("10.0.0.1", from_ms=START + 15_000, until_ms=START + 30_001, limit=9)
    assert found == [piece(1), piece(2), piece(3)]
    assert store.segments("10.0.0.1", from_ms=START + 20_000, until_ms=START + 30_000, limit=9) == [piece(2)]
    assert store.segments("10.0.0.1", from_ms=0, until_ms=FOREVER, limit=2) == [piece(3), piece(4)]
    assert store.segments("10.0.0.2", from_ms=0, until_ms=FOREVER, limit=9) == [piece(2, "10.0.0.2")]
    assert store.segments("10.0.0", from_ms=0, until_ms=FOREVER, limit=9) == []


def test_a_deleted_segment_stays_deleted_whatever_is_said_later_and_survives_a_restart(
    url: str,
):
    store = open_store(url, "write")
    gone = replace(piece(0), state="deleted", reason="space")
    put(store, 1, piece(0), piece(1))
    put(store, 2, gone)
    put(store, 3, piece(0))
    store.close()
    reader = open_store(url)
    assert reader.segments("10.0.0.1", from_ms=0, until_ms=FOREVER, limit=9) == [gone, piece(1)]
    reader.close()


def test_a_gap_of_days_is_found_from_within_it(store: RecordStore):
    before, after = piece(0), piece(100_000)
    gap = VideoSegment(
        segment_id="gap", camera_ip="10.0.0.1", state="gap", start_ms=before.end_ms,
        end_ms=after.start_ms, reason="stream-lost",
    )  # fmt: skip
    put(store, 1, before, gap, after)
    middle_ms = (before.end_ms + after.start_ms) // 2
    assert store.segments("10.0.0.1", from_ms=middle_ms, until_ms=middle_ms + 1, limit=9) == [gap]


def test_what_is_found_is_what_a_plain_loop_finds(store: RecordStore):
    """Pieces of any length in a row, with gaps told between them."""
    dice = random.Random(SEED)
    rows, at_ms = [], START
    for number in range(60):
        is_gap = dice.random() < 0.2
        length = dice.randrange(1, 10 * MAX_SEGMENT_MS if is_gap else MAX_SEGMENT_MS)
        rows.append(
            replace(piece(0), segment_id=f"{number}", state="gap" if is_gap else "stored",
                    start_ms=at_ms, end_ms=at_ms + length)
        )  # fmt: skip
        at_ms += length
    put(store, 1, *rows)
    for _ in range(100):
        from_ms = dice.randrange(START - 1000, at_ms)
        until_ms = from_ms + dice.randrange(1, 3 * MAX_SEGMENT_MS)
        wanted = [one for one in rows if one.end_ms > from_ms and one.start_ms < until_ms]
        assert store.segments("10.0.0.1", from_ms=from_ms, until_ms=until_ms, limit=100) == wanted, SEED
