"""Polygons on the map: whether one may be meant, what lies within it, what it overlaps. Pure.

In: corners in degrees, as (longitude, latitude), the last one joined to the first. Out: answers, or
what is wrong. Never: a polygon over the date line; the curvature of the earth: an edge is a
straight line on a map of degrees, which over a city's length is some metres off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]

Corner: TypeAlias = tuple[float, float]
LEAST_CORNERS, MOST_CORNERS = 3, 1_000


class PolygonFault(NamedTuple):
    """What is wrong with one, in English, and a code for other languages. `corner`: at which one,
    from 0; -1: with all of it."""

    text: str
    code: str
    corner: int = -1


def corner_fault(longitude: float, latitude: float) -> PolygonFault | None:
    """Of one corner by itself; written so that a NaN is a fault, too."""
    if -180 <= longitude <= 180 and -90 <= latitude <= 90:
        return None
    return PolygonFault(
        f"{longitude:g} {latitude:g} is no place: longitude, then latitude, in degrees (WGS 84)",
        "no_place",
    )


def polygon_fault(corners: Sequence[Corner]) -> PolygonFault | None:
    """What keeps these corners from being a polygon; None for one that is."""
    if not LEAST_CORNERS <= len(corners) <= MOST_CORNERS:
        return PolygonFault(
            f"a polygon has {LEAST_CORNERS} to {MOST_CORNERS} corners, not {len(corners)}",
            "polygon_corners",
        )
    for number, corner in enumerate(corners):
        fault = corner_fault(*corner)
        if fault is not None:
            return fault._replace(corner=number)
        if corner == corners[number - 1]:
            return PolygonFault(
                "the same corner twice in a row; the last one is joined to the first by itself",
                "polygon_corner_twice", number,
            )  # fmt: skip
    crossing = _first_crossing(corners)
    if crossing >= 0:
        return PolygonFault(
            "the polygon crosses or touches itself here; write its corners in their order around"
            " it", "polygon_crosses", crossing,
        )  # fmt: skip
    return None


def without_closing(corners: Sequence[Corner]) -> tuple[Corner, ...]:
    """Without a last corner that repeats the first, as GeoJSON writes it."""
    is_closed = len(corners) > 1 and corners[0] == corners[-1]
    return tuple(corners[:-1] if is_closed else corners)


def is_within(corners: Sequence[Corner], longitude: float, latitude: float) -> bool:
    """Whether a place lies in a polygon: a line from it to the east crosses an odd number of edges.
    Of a place on an edge two neighbouring polygons say yes once."""
    inside = False
    east, north = corners[-1]
    for next_east, next_north in corners:
        if (north > latitude) is not (next_north > latitude):
            share = (latitude - north) / (next_north - north)
            inside ^= longitude < east + share * (next_east - east)
        east, north = next_east, next_north
    return inside


class Box(NamedTuple):
    """The least rectangle around a polygon, so that most places need no look at its edges."""

    west: float
    south: float
    east: float
    north: float

    def has(self, longitude: float, latitude: float) -> bool:
        """Whether a place lies in it, or on its edge."""
        return self.west <= longitude <= self.east and self.south <= latitude <= self.north

    def meets(self, other: Box) -> bool:
        """Whether the two have a place in common."""
        is_beside = self.east < other.west or other.east < self.west
        return not (is_beside or self.north < other.south or other.north < self.south)


def box_of(corners: Sequence[Corner]) -> Box:
    """Of at least one corner."""
    easts, norths = zip(*corners, strict=True)
    return Box(min(easts), min(norths), max(easts), max(norths))


def do_overlap(one: Sequence[Corner], other: Sequence[Corner]) -> bool:
    """Whether two polygons have a place in common: edges cross, or one lies within the other."""
    if not box_of(one).meets(box_of(other)):
        return False
    if is_within(one, *other[0]) or is_within(other, *one[0]):
        return True
    begins, ends = _edges(other)
    return any(
        bool(_crossed(begin, end, begins, ends).any())
        for begin, end in zip(*_edges(one), strict=True)
    )


def _edges(corners: Sequence[Corner]) -> tuple[Numbers, Numbers]:
    import numpy as np  # 20 MB that only who reads polygons needs

    begins = np.array(corners, dtype=np.float64)
    return begins, np.roll(begins, -1, axis=0)


def _first_crossing(corners: Sequence[Corner]) -> int:
    """The first edge that meets another than its neighbours, or lies upon one; -1: none."""
    begins, ends = _edges(corners)
    count = len(corners)
    for number in range(count):
        if _turns_back(begins[number - 1], begins[number], ends[number]):
            return number
        beyond = count - 1 if number == 0 else count  # the last edge is the first one's neighbour
        others = slice(number + 2, beyond)
        if _crossed(begins[number], ends[number], begins[others], ends[others]).any():
            return number
    return -1


def _turns_back(before: Numbers, corner: Numbers, behind: Numbers) -> bool:
    """Whether the edge behind a corner goes back along the one before it."""
    (a, b), (c, d) = corner - before, behind - corner
    return bool(a * d - b * c == 0 and a * c + b * d < 0)


def _crossed(begin: Numbers, end: Numbers, begins: Numbers, ends: Numbers) -> NDArray[np.bool_]:
    """Which of some edges have a place in common with one."""
    import numpy as np

    def side(origin: Numbers, towards: Numbers, place: Numbers) -> Numbers:
        along, across = towards - origin, place - origin
        return np.sign(along[..., 0] * across[..., 1] - along[..., 1] * across[..., 0])

    def is_between(origin: Numbers, towards: Numbers, place: Numbers) -> NDArray[np.bool_]:
        low, high = np.minimum(origin, towards), np.maximum(origin, towards)
        return np.asarray(((low <= place) & (place <= high)).all(axis=-1))

    first, second = side(begin, end, begins), side(begin, end, ends)
    third, fourth = side(begins, ends, begin), side(begins, ends, end)
    return np.atleast_1d(
        ((first * second < 0) & (third * fourth < 0))
        | ((first == 0) & is_between(begin, end, begins))
        | ((second == 0) & is_between(begin, end, ends))
        | ((third == 0) & is_between(begins, ends, begin))
        | ((fourth == 0) & is_between(begins, ends, end))
    )
