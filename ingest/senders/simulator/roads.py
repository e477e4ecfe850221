"""The street grid and the quickest ways on it, the same for the same seed."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

from ingest.senders.simulator import names

SPACING_DEGREES = (0.0062, 0.0072)  # blocks of about 700 m at 30 degrees north
JITTER = 0.22  # of the spacing; a grown city is no chess board
METRES_PER_DEGREE = 111_320.0
STREET_METRES_PER_SECOND = 13.0
RING_METRES_PER_SECOND = 19.0


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where two named streets meet. `row` counts southwards, `column` eastwards."""

    index: int
    row: int
    column: int
    latitude: float
    longitude: float

    @property
    def name(self) -> str:
        """Both streets, Chinese."""
        return f"{names.WEST_EAST[self.row][0]}{names.NORTH_SOUTH[self.column][0]}路口"

    @property
    def name_en(self) -> str:
        """Both streets, English."""
        return f"{names.WEST_EAST[self.row][1]} & {names.NORTH_SOUTH[self.column][1]}"

    @property
    def district_id(self) -> str:
        """The district of this part of the grid."""
        return names.DISTRICTS[district_number(self.row, self.column)][0]


@dataclass(slots=True)
class RoadGraph:
    """Invariant: `seconds[a][b]` exists when `seconds[b][a]` does; the graph is connected."""

    crossings: list[Crossing]
    seconds: list[dict[int, float]]
    _next_hop: dict[int, list[int]] = field(default_factory=dict)

    def path(self, start: int, goal: int) -> list[int]:
        """The quickest way, both ends included."""
        hops = self._hops_towards(goal)
        way = [start]
        while way[-1] != goal:
            way.append(hops[way[-1]])
        return way

    def heading(self, origin: int, target: int) -> int:
        """0 north, 1 east, 2 south, 3 west: an index into `names.DIRECTIONS`."""
        a, b = self.crossings[origin], self.crossings[target]
        if a.column == b.column:
            return 0 if b.row < a.row else 2
        return 1 if b.column > a.column else 3

    def _hops_towards(self, goal: int) -> list[int]:
        hops = self._next_hop.get(goal)
        if hops is None:
            hops = self._next_hop[goal] = _shortest_path_tree(self.seconds, goal)
        return hops


def build_roads(seed: int) -> RoadGraph:
    """The same grid for the same seed."""
    rng = random.Random(f"roads:{seed}")
    rows, columns = len(names.WEST_EAST), len(names.NORTH_SOUTH)
    crossings = [
        _crossing(rng, row * columns + column, row, column)
        for row in range(rows)
        for column in range(columns)
    ]
    graph = RoadGraph(crossings, [{} for _ in crossings])
    for a in crossings:
        if a.column + 1 < columns:
            _join(graph, a, crossings[a.index + 1])
        if a.row + 1 < rows and _crossable(a.row, a.column):
            _join(graph, a, crossings[a.index + columns])
    return graph


def _crossing(rng: random.Random, index: int, row: int, column: int) -> Crossing:
    north = (len(names.WEST_EAST) - 1) / 2 - row - (0.35 if row > names.RIVER_AFTER_ROW else 0.0)
    east = column - (len(names.NORTH_SOUTH) - 1) / 2
    latitude = names.CENTRE[0] + SPACING_DEGREES[0] * (north + rng.uniform(-JITTER, JITTER))
    longitude = names.CENTRE[1] + SPACING_DEGREES[1] * (east + rng.uniform(-JITTER, JITTER))
    return Crossing(index, row, column, round(latitude, 6), round(longitude, 6))


def _crossable(row: int, column: int) -> bool:
    return row != names.RIVER_AFTER_ROW or column in names.BRIDGE_COLUMNS


def district_number(row: int, column: int) -> int:
    """Of this part of the grid; an index into `names.DISTRICTS`."""
    if row > names.RIVER_AFTER_ROW:
        return 5 if column < 6 else 6
    if column >= 10:
        return 7
    if column <= 1:
        return 4
    if row <= 1:
        return 2
    if column >= 8:
        return 3
    return 1 if column <= 4 else 0


def _join(graph: RoadGraph, a: Crossing, b: Crossing) -> None:
    speed = RING_METRES_PER_SECOND if is_ring(a, b) else STREET_METRES_PER_SECOND
    seconds = metres(a, b) / speed
    graph.seconds[a.index][b.index] = graph.seconds[b.index][a.index] = seconds


def is_ring(a: Crossing, b: Crossing) -> bool:
    """Whether the way between them is one of the four outer roads."""
    last_row, last_column = len(names.WEST_EAST) - 1, len(names.NORTH_SOUTH) - 1
    same_row = a.row == b.row and a.row in (0, last_row)
    return same_row or (a.column == b.column and a.column in (1, last_column))


def metres(a: Crossing, b: Crossing) -> float:
    """Of the straight way between two crossings."""
    north = (a.latitude - b.latitude) * METRES_PER_DEGREE
    east = (a.longitude - b.longitude) * METRES_PER_DEGREE * math.cos(math.radians(a.latitude))
    return math.hypot(north, east)


def _shortest_path_tree(seconds: list[dict[int, float]], goal: int) -> list[int]:
    """For every crossing the next one on the quickest way to `goal` (Dijkstra from the goal)."""
    best = [math.inf] * len(seconds)
    hops = [goal] * len(seconds)
    best[goal] = 0.0
    queue = [(0.0, goal)]
    while queue:
        cost, here = heapq.heappop(queue)
        if cost > best[here]:
            continue
        for neighbour, step in seconds[here].items():
            if cost + step < best[neighbour]:
                best[neighbour] = cost + step
                hops[neighbour] = here
                heapq.heappush(queue, (cost + step, neighbour))
    return hops
