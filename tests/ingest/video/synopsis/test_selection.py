"""What was asked for is shown, and what was not asked about excludes nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.boxes import Box, TargetClass
from ingest.video.synopsis.selection import TubeSelection, direction_of, parse_area
from ingest.video.synopsis.tubes import Tube, TubePoint, dense_tubes


def tube(
    track: int = 1, dx: float = 6, dy: float = 0, frames: int = 40, kind: TargetClass = "person"
) -> Tube:
    points = [TubePoint(n, Box(300 + dx * n, 200 + dy * n, 20, 60), kind) for n in range(frames)]
    return dense_tubes(track, points, 10.0)[0]


@pytest.mark.parametrize(
    ("dx", "dy", "there"),
    [(6, 1, "right"), (-6, 1, "left"), (1, 4, "down"), (1, -4, "up"), (0.1, 0.2, None)],
)
def test_a_direction_is_where_a_target_went_on_the_whole(
    dx: float, dy: float, there: str | None
) -> None:
    assert direction_of([tube(dx=dx, dy=dy)]) == there


def test_each_condition_leaves_out_who_does_not_meet_it() -> None:
    walkers = [tube(1), tube(2, dx=-6), tube(3, frames=15), tube(4, kind="vehicle")]
    for selection, left in (
        (TubeSelection(), {1, 2, 3, 4}),
        (TubeSelection(least_s=2.0), {1, 2, 4}),
        (TubeSelection(kinds=frozenset({"vehicle"})), {4}),
        (TubeSelection(directions=frozenset({"left"})), {2}),
        (TubeSelection(area=Box(450, 0, 50, 500)), {1, 4}),
    ):
        assert {one.track for one in selection.tracks(walkers, 10.0)} == left


def test_a_track_that_was_hidden_for_a_while_counts_as_a_whole() -> None:
    points = [TubePoint(n, Box(6.0 * n, 200, 20, 60)) for n in (*range(12), *range(40, 52))]
    parts = dense_tubes(1, points, 10.0)
    assert len(parts) == 2
    assert TubeSelection(least_s=2.0).tracks(parts, 10.0) == parts


def test_colours_are_asked_for_when_they_are_known() -> None:
    red = replace(tube(1), colours=frozenset({"red", "black"}))
    wanted = TubeSelection(colours=frozenset({"red", "blue"}))
    assert wanted.coloured([red, tube(2)]) == [red]


@given(st.text(alphabet="0123456789.,-einfx ", max_size=40))
def test_any_text_is_an_area_or_refused(text: str) -> None:
    try:
        area = parse_area(text)
    except ValueError:
        return
    assert area.w > 0
    assert area.h > 0
