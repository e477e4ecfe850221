"""Polygons: what lies within, what overlaps, which are none; compared with plain arithmetic."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bus.domain.polygons import (
    FEW,
    MOST_CORNERS,
    Corner,
    do_overlap,
    is_within,
    polygon_fault,
    which_within,
    without_closing,
)

SQUARE: tuple[Corner, ...] = ((0, 0), (4, 0), (4, 4), (0, 4))
HORSESHOE: tuple[Corner, ...] = ((0, 0), (5, 0), (5, 5), (4, 5), (4, 1), (1, 1), (1, 5), (0, 5))
coordinates = st.integers(-20, 20).map(lambda number: number / 4)


@st.composite
def stars(draw: st.DrawFn) -> tuple[Corner, ...]:
    """Around a middle, so that no two edges meet."""
    count = draw(st.integers(3, 12))
    east, north = draw(coordinates), draw(coordinates)
    angles = [2 * math.pi * number / count for number in range(count)]
    reaches = [draw(st.floats(0.5, 4)) for _ in angles]
    return tuple(
        (east + reach * math.cos(angle), north + reach * math.sin(angle))
        for angle, reach in zip(angles, reaches, strict=True)
    )


def winding(corners: tuple[Corner, ...], east: float, north: float) -> int:
    """How often the edge goes round a place: another way to know what is within."""
    turns = 0.0
    for (x, y), (to_x, to_y) in zip(corners, (*corners[1:], corners[0]), strict=True):
        begin, end = math.atan2(y - north, x - east), math.atan2(to_y - north, to_x - east)
        turns += (end - begin + math.pi) % (2 * math.pi) - math.pi
    return round(turns / (2 * math.pi))


def is_on_edge(corners: tuple[Corner, ...], east: float, north: float) -> bool:
    """Where the edge goes half round a place, or through it."""
    place = east, north
    return any(
        math.dist(begin, place) + math.dist(place, end) - math.dist(begin, end) < 1e-9
        for begin, end in zip(corners, (*corners[1:], corners[0]), strict=True)
    )


@given(stars(), st.floats(-9, 9), st.floats(-9, 9))
def test_a_place_is_within_where_the_edge_goes_round_it(
    corners: tuple[Corner, ...], east: float, north: float
) -> None:
    """Whichever way the corners run. A place on the edge is within one of two neighbours, whichever."""
    assert polygon_fault(corners) is None
    assume(not is_on_edge(corners, east, north))
    expected = winding(corners, east, north) != 0
    assert is_within(corners, east, north) is expected
    assert is_within(corners[::-1], east, north) is expected


@given(stars(), st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), max_size=20))
def test_of_many_places_the_answer_is_that_of_each(
    corners: tuple[Corner, ...], places: list[Corner]
) -> None:
    """Of so many that they are judged together, too."""
    many = places * (FEW // (len(corners) * max(1, len(places))) + 1)
    expected = [is_within(corners, *place) for place in places]
    assert which_within(corners, places) == expected
    assert which_within(corners, many) == expected * (len(many) // len(places) if places else 1)


def test_what_a_polygon_goes_around_is_not_within() -> None:
    assert is_within(HORSESHOE, 0.5, 3)
    assert not is_within(HORSESHOE, 2, 3)
    assert is_within(SQUARE, 0, 0) is not is_within(SQUARE, 4, 4)


@given(stars(), stars())
def test_two_polygons_overlap_in_either_order_and_where_a_corner_lies_within(
    one: tuple[Corner, ...], other: tuple[Corner, ...]
) -> None:
    found = do_overlap(one, other)
    assert do_overlap(other, one) is found
    if any(is_within(one, *corner) for corner in other):
        assert found


def test_polygons_overlap_without_a_corner_within_and_not_beside_each_other() -> None:
    """A cross of two bars; a square within a horseshoe's arms; one within another."""
    assert do_overlap(((-1, 1), (5, 1), (5, 2), (-1, 2)), SQUARE)
    assert not do_overlap(HORSESHOE, ((2, 2), (3, 2), (3, 3), (2, 3)))
    assert do_overlap(SQUARE, ((1, 1), (2, 1), (2, 2)))
    assert not do_overlap(SQUARE, ((5, 5), (6, 5), (6, 6)))


@pytest.mark.parametrize(("corners", "code", "corner"), [
    (((0, 0), (1, 1)), "polygon_corners", -1),
    (((0, 0),) * (MOST_CORNERS + 1), "polygon_corners", -1),
    (((0, 0), (4, 4), (4, 0), (0, 4)), "polygon_crosses", 0),
    (((0, 0), (4, 0), (4, 0), (0, 4)), "polygon_corner_twice", 2),
    (((0, 0), (4, 0), (2, 0)), "polygon_crosses", 0),
    (((0, 0), (4, 0), (4, 4), (2, 0), (0, 4)), "polygon_crosses", 0),
    (((0, 0), (4, 0), (0, 91)), "no_place", 2),
    (((0, 0), (181, 0), (0, 9)), "no_place", 1),
    (((0, 0), (math.nan, 0), (0, 9)), "no_place", 1),
    (((0, 0), (math.inf, 0), (0, 9)), "no_place", 1),
])  # fmt: skip
def test_what_is_no_polygon_is_told_with_the_corner_at_fault(
    corners: tuple[Corner, ...], code: str, corner: int
) -> None:
    """Also one that touches itself, or goes back the way it came."""
    fault = polygon_fault(corners)
    assert fault is not None
    assert (fault.code, fault.corner) == (code, corner)


def test_a_last_corner_that_repeats_the_first_is_none() -> None:
    assert without_closing((*SQUARE, SQUARE[0])) == SQUARE
    assert without_closing(SQUARE) == SQUARE


def test_a_polygon_of_as_many_corners_as_there_may_be_is_looked_at_soon() -> None:
    """Somebody may send many of them."""
    angles = [2 * math.pi * number / MOST_CORNERS for number in range(MOST_CORNERS)]
    corners = [
        ((2 + number % 2) * math.cos(angle), (2 + number % 2) * math.sin(angle))
        for number, angle in enumerate(angles)
    ]
    began = time.perf_counter()
    assert polygon_fault(corners) is None
    assert time.perf_counter() - began < 2
