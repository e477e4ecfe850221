"""Where a moment of a film is."""

from __future__ import annotations

from msgspec.structs import replace

from bus.contracts.video_segments import Keyframe, VideoSegment
from ingest.store.segments import FilmPosition, position_at

SEGMENT = VideoSegment(
    segment_id="a", camera_ip="c", state="stored", start_ms=1_000, end_ms=11_000,
    keyframes=(Keyframe(641, 1_000), Keyframe(9_000, 3_000), Keyframe(20_000, 9_000)),
)  # fmt: skip


def test_a_moment_is_decoded_from_the_last_keyframe_before_it() -> None:
    for at_ms, number in ((1_000, 0), (2_999, 0), (3_000, 1), (8_999, 1), (10_999, 2)):
        key = SEGMENT.keyframes[number]
        assert position_at([SEGMENT], at_ms) == FilmPosition(SEGMENT, key, at_ms - key.at_ms)


def test_no_film_is_found_outside_of_segments_in_gaps_and_in_what_is_deleted() -> None:
    assert [position_at([SEGMENT], at_ms) for at_ms in (999, 11_000)] == [None, None]
    for state in ("gap", "deleted"):
        assert position_at([replace(SEGMENT, state=state)], 5_000) is None


def test_of_two_films_of_a_moment_the_one_that_began_later_is_taken() -> None:
    later = replace(SEGMENT, segment_id="b", start_ms=4_000, keyframes=(Keyframe(641, 4_000),))
    found = position_at([SEGMENT, later], 5_000)
    assert found is not None
    assert found.segment.segment_id == "b"
