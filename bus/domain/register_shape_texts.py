"""Shapes of a register as cells of a CSV and as GeoJSON. Pure.

In: text, or what JSON holds. Out: places, polygons, lanes, pieces of roads, or `ShapeError`. Never:
whether they may be meant (`register_shapes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from bus.contracts.register import Place, Polygon
from bus.contracts.travel_headings import Heading
from bus.domain.polygons import without_closing
from bus.domain.rule_values import normal
from bus.domain.travel_headings import HEADINGS, named_heading

BETWEEN_PLACES, BETWEEN_PARTS, BETWEEN_LANES = "; ", " | ", ";"


class ShapeError(ValueError):
    """One thing that cannot be read, in both languages."""

    def __init__(self, text: str, text_zh: str) -> None:
        super().__init__(text)
        self.text, self.text_zh = text, text_zh


def degrees(text: str, name: str) -> float:
    """`NaN` and infinities are floats, and no degrees."""
    return _number(text, name, "degrees", "以度为单位的数值")


def metres(text: str, name: str) -> float:
    """A length."""
    return _number(text, name, "metres", "以米为单位的数值")


def whole_number(text: str, name: str) -> int:
    """Empty: 0."""
    number = text.strip() or "0"
    if number.isascii() and number.isdigit() and len(number) < 10:
        return int(number)
    what = f"{name}: {text[:40]!r}"
    raise ShapeError(f"{what} is no whole number", f"{what} 不是整数")


def bearing(text: str) -> float | None:
    """Empty: not known."""
    return degrees(text, "bearing") if text.strip() else None


def lanes(text: str) -> tuple[str, ...]:
    """`1;2;3`."""
    return tuple(filter(None, (one.strip() for one in text.split(BETWEEN_LANES))))


def headings(texts: Iterable[str]) -> tuple[Heading, ...]:
    """`north`, `north-east`, …, in the words of either language."""
    found = []
    for text in texts:
        heading = named_heading(normal(text))
        if heading is None:
            what, known = f"headings: {text[:40]!r}", ", ".join(HEADINGS)
            raise ShapeError(f"{what} is none of {known}", f"{what} 应为 {known}，或“由南向北”等")
        found.append(heading)
    return tuple(found)


def line(text: str, name: str = "line") -> tuple[Place, ...]:
    """`30.25 120.16; 30.26 120.17`: latitude before longitude."""
    places = []
    for place in filter(None, (one.strip() for one in text.split(BETWEEN_PLACES.strip()))):
        numbers = place.split()
        if len(numbers) != 2:
            what = f"{name}: {place[:40]!r}"
            raise ShapeError(f"{what} is not `latitude longitude`", f"{what} 应为“纬度 经度”")
        places.append((degrees(numbers[0], name), degrees(numbers[1], name)))
    return tuple(places)


def polygons(text: str) -> tuple[Polygon, ...]:
    """Lines with a bar between them, each around a part."""
    parts = (line(part, "area") for part in text.split(BETWEEN_PARTS.strip()))
    return tuple(without_closing(part) for part in parts if part)


def polygon(text: str) -> Polygon:
    """One part."""
    found = polygons(text)
    if len(found) > 1:
        raise ShapeError("area: a device has one polygon", "area：设备只有一个多边形")
    return found[0] if found else ()


def line_text(places: Iterable[Place]) -> str:
    """As `line` reads it."""
    return BETWEEN_PLACES.join(f"{latitude} {longitude}" for latitude, longitude in places)


def polygons_text(parts: Iterable[Polygon]) -> str:
    """As `polygons` reads it."""
    return BETWEEN_PARTS.join(map(line_text, parts))


# --- GeoJSON: longitude before latitude, a ring ends where it begins ---


def place_of(coordinates: object) -> Place:
    """`[longitude, latitude]`, perhaps with a height."""
    numbers = msgspec.convert(coordinates, list[float])
    if len(numbers) < 2:
        raise ShapeError("a place is [longitude, latitude]", "位置应为 [经度, 纬度]")
    if not all(map(math.isfinite, numbers[:2])):
        raise ShapeError("a place is two finite numbers", "经度和纬度应为有限数值")
    return numbers[1], numbers[0]


def ring_of(coordinates: object) -> Polygon:
    """One ring."""
    return without_closing(tuple(map(place_of, msgspec.convert(coordinates, list[object]))))


def area_of(kind: str, coordinates: list[object]) -> tuple[Polygon, ...]:
    """Of a `Polygon` or a `MultiPolygon`: the outer ring of each part; holes are not kept."""
    parts: list[object] = [coordinates] if kind == "Polygon" else coordinates
    rings = [msgspec.convert(part, list[object]) for part in parts]
    return tuple(ring_of(part[0]) for part in rings if part)


def coordinates_of(polygon_of: Polygon) -> list[list[float]]:
    """A closed ring."""
    closed = (*polygon_of, polygon_of[0]) if polygon_of else ()
    return [[longitude, latitude] for latitude, longitude in closed]


def geometry_of(area: tuple[Polygon, ...]) -> dict[str, object] | None:
    """None of an area that is not known."""
    if not area:
        return None
    if len(area) == 1:
        return {"type": "Polygon", "coordinates": [coordinates_of(area[0])]}
    return {"type": "MultiPolygon", "coordinates": [[coordinates_of(part)] for part in area]}


def _number(text: str, name: str, unit: str, unit_zh: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        what = f"{name}: {text[:40]!r}"
        raise ShapeError(f"{what} is no number of {unit}", f"{what} 不是{unit_zh}")
    return found
