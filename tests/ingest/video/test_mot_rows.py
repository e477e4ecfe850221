"""Rows of the MOTChallenge: first frame and first pixel are 1, short gaps are filled."""

from __future__ import annotations

from ingest.video.boxes import Box, Detection
from ingest.video.mot_rows import LONGEST_GAP_MS, mot_rows
from ingest.video.tracks import Sighting, Track

FRAMES = {100 * n: 2 * n for n in range(60)}  # every second frame was looked at


def track(number: int, *looks: int) -> Track:
    return Track(number, [Sighting(100 * n, Detection(Box(10 * n, 5, 20, 40), 0.5 + n / 100, "person")) for n in looks])


def test_rows_go_by_frame_and_begin_at_one() -> None:
    rows = list(mot_rows([track(2, 0, 1, 2), track(1, 1, 2, 3)], FRAMES, 1.0, 100))
    assert [row.split(",")[:2] for row in rows] == [
        ["1", "2"], ["3", "1"], ["3", "2"], ["5", "1"], ["5", "2"], ["7", "1"],
    ]  # fmt: skip
    assert rows[0] == "1,2,1.0,6.0,20.0,40.0,0.500,-1,-1,-1"


def test_boxes_are_in_pixels_of_the_film() -> None:
    [first, *_] = mot_rows([track(1, 1, 2)], FRAMES, 2.5, 100)
    assert first == "3,1,26.0,13.5,50.0,100.0,0.510,-1,-1,-1"


def test_who_is_hidden_for_a_moment_is_in_the_rows_between() -> None:
    rows = list(mot_rows([track(1, 0, 4)], FRAMES, 1.0, 100))
    assert [row.split(",")[0] for row in rows] == ["1", "3", "5", "7", "9"]
    assert rows[2] == "5,1,21.0,6.0,20.0,40.0,0.500,-1,-1,-1"


def test_who_is_hidden_for_long_is_in_no_row_between_and_a_flicker_in_none() -> None:
    far = LONGEST_GAP_MS // 100 + 1
    rows = list(mot_rows([track(1, 0, far), track(2, 3, 4)], FRAMES, 1.0, 200))
    assert [row.split(",")[:2] for row in rows] == [["1", "1"], [str(2 * far + 1), "1"]]
