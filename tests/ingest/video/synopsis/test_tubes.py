"""Tubes have a box for every frame; what is shown of them is all of their way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.boxes import Box
from ingest.video.synopsis.tubes import (
    LONGEST_GAP_S,
    STILL_SPEED,
    TubePoint,
    condensed,
    dense_tubes,
    length_for,
    pieces,
)  # fmt: skip

FPS = 10.0


def walk(frames: list[int], speed_px: float = 6.0) -> list[TubePoint]:
    return [TubePoint(n, Box(speed_px * n, 50, 20, 60), "person") for n in frames]


def test_between_two_looks_the_box_moves_evenly() -> None:
    [tube] = dense_tubes(7, walk(list(range(0, 41, 4))), FPS)
    assert list(tube.frames) == list(range(41))
    assert tube.boxes[:, 0] == pytest.approx(6.0 * np.arange(41))
    assert (tube.track, tube.kind) == (7, "person")


def test_a_track_that_was_hidden_for_long_is_two_tubes() -> None:
    gap = int(LONGEST_GAP_S * FPS) + 1
    first, second = dense_tubes(1, walk([0, 1, 2, 2 + gap, 3 + gap]), FPS)
    assert (first.last, second.first) == (2, 2 + gap)


def test_frames_that_do_not_grow_are_refused() -> None:
    with pytest.raises(ValueError, match="grow"):
        dense_tubes(1, walk([0, 2, 2]), FPS)


def test_who_stands_is_shown_quicker_after_a_second() -> None:
    points = [TubePoint(n, Box(100 + 6.0 * max(0, n - 100), 50, 20, 60)) for n in range(140)]
    [tube] = dense_tubes(1, points, FPS)
    shown = condensed(tube, FPS, 1).frames
    assert list(shown[:5]) == [0, 1, 2, 3, 4]
    assert set(np.diff(shown[(shown > 20) & (shown < 90)])) == {STILL_SPEED}
    assert set(np.diff(shown[shown > 110])) == {1}


@given(st.integers(1, 400), st.integers(1, 16), st.integers(1, 120))
def test_pieces_are_the_whole_way_in_order_and_none_is_too_long(
    length: int, speed: int, longest: int
) -> None:
    [tube] = dense_tubes(1, walk(list(range(length))), FPS)
    shown = condensed(tube, FPS, speed)
    assert (shown.first, shown.last) == (tube.first, tube.last)
    parts = pieces(shown, longest)
    assert [int(f) for part in parts for f in part.frames] == [int(f) for f in shown.frames]
    assert all(1 <= len(part) <= longest for part in parts)


def test_the_length_follows_from_how_much_is_covered() -> None:
    [tube] = dense_tubes(1, walk(list(range(100))), FPS)
    assert length_for([tube], 0.1, 100 * 120) == 100
    assert length_for([tube], 0.2, 100 * 120) == 50
