"""Blocks of the street grid as polygons on the map: districts, and the area of a rule.

A block is the cell around a crossing, so that each crossing lies in one, however it is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bus.contracts.register import Place, Polygon
from ingest.senders.simulator import names
from ingest.senders.simulator.roads import SPACING_DEGREES

Cell = tuple[int, int]
"""Row and column of a crossing."""
Vertex = tuple[int, int]
"""Where lines between rows and columns meet: the one before each row and column, and the last."""
_RIVER_ROWS = 0.35


def place_of(vertex: Vertex) -> Place:
    """[latitude, longitude] of the middle between four crossings."""
    row, column = vertex
    beyond = row - names.RIVER_AFTER_ROW - 1
    river = 0.0 if beyond < 0 else _RIVER_ROWS / 2 if beyond == 0 else _RIVER_ROWS
    north = (len(names.WEST_EAST) - 1) / 2 - (row - 0.5) - river
    east = column - 0.5 - (len(names.NORTH_SOUTH) - 1) / 2
    return (
        round(names.CENTRE[0] + SPACING_DEGREES[0] * north, 6),
        round(names.CENTRE[1] + SPACING_DEGREES[1] * east, 6),
    )


def block(rows: range, columns: range) -> Polygon:
    """The rectangle around some crossings."""
    vertices = (
        (rows.start, columns.start), (rows.stop, columns.start), (rows.stop, columns.stop),
        (rows.start, columns.stop),
    )  # fmt: skip
    return tuple(map(place_of, vertices))


def outline(cells: Iterable[Cell]) -> tuple[Polygon, ...]:
    """The edge of these blocks together, one polygon for each part; of blocks without a hole."""
    edges = {edge for cell in cells for edge in _edges(cell)}
    following = {begin: end for begin, end in edges if (end, begin) not in edges}
    parts = []
    while following:
        start = min(following)
        ring, at = [start], following.pop(start)
        while at != start:
            ring.append(at)
            at = following.pop(at)
        parts.append(tuple(map(place_of, _without_straight(ring))))
    return tuple(parts)


def _edges(cell: Cell) -> Iterator[tuple[Vertex, Vertex]]:
    """Around one block."""
    row, column = cell
    corners = ((row, column), (row + 1, column), (row + 1, column + 1), (row, column + 1))
    yield from zip(corners, (*corners[1:], corners[0]), strict=True)


def _without_straight(ring: list[Vertex]) -> list[Vertex]:
    """Only where the edge turns."""
    around = zip(ring[-1:] + ring[:-1], ring, ring[1:] + ring[:1], strict=True)
    return [
        here for before, here, behind in around
        if (here[0] - before[0], here[1] - before[1]) != (behind[0] - here[0], behind[1] - here[1])
    ]  # fmt: skip
