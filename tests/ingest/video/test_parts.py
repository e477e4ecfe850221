"""A film in parts is found to hold what the whole film holds, under the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.times import local_time
from ingest.video.boxes import Box, Detection
from ingest.video.parts import FrameRange, PartTracks, VideoPart, merged, parts_of
from ingest.video.recognise import (
    LEAD_LOOKS,
    MOTION,
    find_tracks,
    merged_found,
    parts_of_video,
    recognise,
    report_of,
)
from ingest.video.reports import Reporter, VideoSource
from ingest.video.settings import VideoSettings
from ingest.video.tracker import CONFIRMED_LOOKS, Tracker
from ingest.video.tracks import Track
from ingest.video.video_reader import VideoReader
from tests.ingest.video.test_recognise import START_MS, ZONE, film_path  # noqa: F401

LOOK_MS, LOST_MS, LOST_LOOKS = 200, 1_000, 5
# By lane, the looks at which its target is seen: it moves slowly, so that nothing is doubtful, and
# comes out from behind something long enough to be known again.
LANES = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.integers(CONFIRMED_LOOKS, 12)), max_size=8).map(
        lambda runs: seen_in(runs)
    ),
    min_size=1, max_size=4,
)  # fmt: skip


def seen_in(runs: list[tuple[int, int]]) -> set[int]:
    """Of how many looks it is hidden and then seen, time and again."""
    found: set[int] = set()
    at = 0
    for hidden, seen_for in runs:
        found |= set(range(at + hidden, min(40, at + hidden + seen_for)))
        at += hidden + seen_for
    return found


@given(st.integers(0, 400), st.integers(1, 9), st.integers(1, 8), st.integers(0, 12), st.integers(1, 5))
def test_every_look_of_the_film_counts_in_exactly_one_part(
    frames: int, per_look: int, count: int, lead: int, aligned: int
) -> None:
    parts = parts_of(frames, per_look, count, lead_looks=lead, aligned_looks=aligned)
    assert 1 <= len(parts) <= count
    ends = [frames if part.frames.end is None else part.frames.end for part in parts]
    counted = [
        number
        for part, end in zip(parts, ends, strict=True)
        for number in range(part.counted_from, end) if number % per_look == 0
    ]  # fmt: skip
    assert counted == list(range(0, frames, per_look))
    for part in parts:
        assert part.counted_from % (per_look * aligned) == part.frames.first % (per_look * aligned) == 0
        assert part.frames.first == 0 or part.counted_from - part.frames.first >= lead * per_look
    lengths = [end - part.counted_from for part, end in zip(parts, ends, strict=True)]
    assert max(lengths) - min(lengths) <= 2 * per_look * aligned


def seen(lanes: list[set[int]], look: int) -> list[Detection]:
    """Scores that differ, so that the best is one."""
    return [
        Detection(Box(10 + look, 200 * lane, 40, 100), score=0.6 + (look * 7 + lane) % 11 / 100)
        for lane, looks in enumerate(lanes) if look in looks
    ]  # fmt: skip


def tracked(lanes: list[set[int]], first: int, end: int) -> list[Track]:
    tracker, ended = Tracker(LOST_MS), []
    for look in range(first, end):
        ended += tracker.step(look * LOOK_MS, seen(lanes, look))
    return ended + tracker.finish()


@given(LANES, st.integers(1, 9))
def test_merged_tracks_are_those_of_the_whole_film(lanes: list[set[int]], count: int) -> None:
    """Also of who is hidden where two parts meet, or for a whole part."""
    whole = sorted(tracked(lanes, 0, 40), key=lambda track: track.number)
    parts = parts_of(40, 1, count, lead_looks=LOST_LOOKS + LEAD_LOOKS)
    found = [
        PartTracks(
            part.counted_from * LOOK_MS,
            tracked(lanes, part.frames.first, 40 if part.frames.end is None else part.frames.end),
        )
        for part in parts
    ]
    together = merged(found)
    assert [(one.track.number, one.track.sightings) for one in together] == [
        (track.number, track.sightings) for track in whole
    ]
    for one in together:
        part, number = one.best_of
        [own] = [track for track in found[part].tracks if track.number == number]
        assert own.best_since(found[part].counted_from_ms) == one.track.best


def test_two_that_meet_where_the_film_is_cut_are_not_exchanged() -> None:
    """Who is who is decided by all moments that both parts saw."""
    looks = [
        [Detection(Box(10 + 8 * n, 50, 40, 100), 0.9), Detection(Box(410 - 8 * n, 70, 40, 100), 0.9)]
        for n in range(50)
    ]

    def part(first: int, end: int, counted_from: int) -> PartTracks:
        tracker, ended = Tracker(LOST_MS), []
        for look in range(first, end):
            ended += tracker.step(look * LOOK_MS, looks[look])
        return PartTracks(counted_from * LOOK_MS, ended + tracker.finish())

    together = merged([part(0, 25, 0), part(15, 50, 25)])
    assert [len(one.track.sightings) for one in together] == [50, 50]
    for one in together:
        xs = [sighting.detection.box.x for sighting in one.track.sightings]
        assert xs in (sorted(xs), sorted(xs, reverse=True))


def test_a_range_of_frames_is_what_the_whole_film_shows_there(film_path: Path) -> None:  # noqa: F811
    def frames(part: FrameRange) -> list[tuple[int, int, bytes]]:
        film = VideoReader(film_path)
        read = film.read_frames(5, 768, part)
        found = [(f.frame_number, f.at_ms, np.asarray(f.image).tobytes()) for f in read]
        film.close()
        return found

    whole = frames(FrameRange())
    assert [number for number, _, _ in whole] == list(range(0, 60, 2))
    assert frames(FrameRange(20, 41)) == whole[10:21]
    assert frames(FrameRange(41, None)) == whole[21:]
    assert frames(FrameRange(60, 80)) == []


def test_a_film_in_parts_gives_the_records_of_the_whole_film(film_path: Path) -> None:  # noqa: F811
    """The thing that drives by is one, under its number, with a picture, though it is there when the
    film is cut. The background is learnt in another time, so that boxes may differ by a little."""
    film = VideoReader(film_path)
    source = VideoSource("330191#1#1#0", "10.0.0.9", "127.0.0.1", film.identity, START_MS)
    settings, reporter = VideoSettings(), Reporter(source, VideoSettings(), local_time(ZONE), MOTION)
    parts = parts_of_video(film, settings, 2)
    assert parts == [VideoPart(FrameRange(0, 30), 0), VideoPart(FrameRange(0, None), 30)]
    found = []
    for part in parts:
        one = VideoReader(film_path)
        found.append(list(find_tracks(one, settings, part)))
        one.close()
    whole = list(recognise(film, source, settings, local_time(ZONE)))
    reports = [r for one in merged_found(film, parts, found) if (r := report_of(reporter, one))]
    film.close()
    assert [(r.record_id, r.message["出现时间"], r.message["消失时间"]) for r in reports] == [
        (r.record_id, r.message["出现时间"], r.message["消失时间"]) for r in whole
    ]
    assert [list(r.pictures) for r in reports] == [list(r.pictures) for r in whole]
