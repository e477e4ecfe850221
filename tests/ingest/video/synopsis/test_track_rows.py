"""Rows of the MOTChallenge are read; whatever else is in a file is refused by its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.boxes import Box, Detection
from ingest.video.mot_rows import mot_rows
from ingest.video.synopsis.track_rows import TrackRowsError, read_track_rows
from ingest.video.synopsis.tubes import TubePoint
from ingest.video.tracks import Sighting, Track


def test_what_recognise_writes_is_read_as_it_was() -> None:
    sightings = [
        Sighting(100 * n, Detection(Box(10.5 + n, 20, 30, 60), 0.9, "person")) for n in range(20)
    ]
    rows = mot_rows([Track(3, sightings)], {100 * n: n for n in range(20)}, 1.0, 0)
    found = read_track_rows("\n".join(rows))
    assert found == {3: [TubePoint(n, Box(10.5 + n, 20, 30, 60)) for n in range(20)]}


def test_a_truth_file_says_of_which_class_a_target_is() -> None:
    found = read_track_rows("1,1,1,1,5,5,1,1,1\n1,2,1,1,5,5,1,3,1\n1,3,1,1,5,5,1,9,1\n")
    assert [points[0].kind for points in found.values()] == ["person", "vehicle", "thing"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("1,2,3", "six columns|needs frame"),
        ("x,2,3,4,5,6", "needs frame"),
        ("0,2,3,4,5,6", "numbered from 1"),
        ("1,2,3,4,nan,6", "impossible"),
        ("1,2,3,4,1e9,6", "impossible"),
        ("1,2,3,4,0,6", "width and a height"),
        ("1,1,3,4,5,6", "twice"),
    ],
)
def test_a_faulty_row_is_refused_with_its_number(row: str, why: str) -> None:
    with pytest.raises(TrackRowsError, match=f"line 2: .*({why})"):
        read_track_rows(f"1,1,3,4,5,6\n{row}")


@given(st.text(alphabet="0123456789.,-einf \n", max_size=200) | st.text(max_size=100))
def test_any_text_is_rows_or_refused(text: str) -> None:
    try:
        found = read_track_rows(text)
    except TrackRowsError:
        return
    for points in found.values():
        frames = [one.frame for one in points]
        assert frames == sorted(set(frames))
        assert all(one.box.w > 0 and one.box.h > 0 for one in points)
