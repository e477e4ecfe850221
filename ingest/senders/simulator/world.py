"""What stands in the city: checkpoints, cameras, recognition servers, and the register of them all.
The same seed gives the same city."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from bus.contracts.register import (
    Checkpoint,
    Device,
    District,
    Register,
    Road,
    RoadPiece,
)
from ingest.senders.simulator import names
from ingest.senders.simulator.roads import Crossing, RoadGraph, build_roads, is_ring, metres
from ingest.senders.simulator.street_blocks import Cell, outline

SMART_EVERY = 3  # every third camera recognises by itself (W-6); two thirds hang behind servers
STREET_LIMIT_KMH, RING_LIMIT_KMH = 50, 70
LANES = ("1", "2", "3")
CAMERAS_PER_CROSSING = 2  # one over each of the two streets


@dataclass(frozen=True, slots=True)
class CityWorld:
    """`street_cameras[crossing][axis]` (0 north-south, 1 east-west); `entrance_cameras[number]`."""

    seed: int
    graph: RoadGraph
    register: Register
    street_cameras: tuple[tuple[Device, ...], ...]
    entrance_cameras: tuple[tuple[Device, ...], ...]

    @property
    def servers(self) -> list[str]:
        """Addresses of all recognition servers, sorted."""
        return sorted({d.recognizer_ip for d in self.register.devices if d.recognizer_ip})

    def street_camera(self, crossing: int, heading: int) -> Device:
        """The camera that sees a vehicle arriving with this heading."""
        return self.street_cameras[crossing][heading % CAMERAS_PER_CROSSING]


def build_world(seed: int, site: str = "main") -> CityWorld:
    """The same city for the same seed."""
    graph = build_roads(seed)
    rng = random.Random(f"world:{seed}")
    place = _Places(rng)
    streets = tuple(place.crossing(crossing) for crossing in graph.crossings)
    entrances = tuple(
        place.entrance(number, rng.choice(graph.crossings))
        for number in range(len(names.ENTRANCES))
    )
    register = Register(
        site=site,
        districts=tuple(_districts(graph)),
        checkpoints=tuple(place.checkpoints),
        devices=tuple(place.devices),
        roads=tuple(_roads(graph, [cameras[0].checkpoint_id for cameras in streets])),
    )
    return CityWorld(seed, graph, register, streets, entrances)


class _Places:
    """Hands out checkpoint ids and addresses while the city is being built."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.checkpoints: list[Checkpoint] = []
        self.devices: list[Device] = []

    def crossing(self, crossing: Crossing) -> tuple[Device, ...]:
        """A checkpoint with one camera per street."""
        checkpoint = self._checkpoint(
            crossing, 1, crossing.name, crossing.name_en, crossing.latitude, crossing.longitude
        )
        return self._cameras(checkpoint, "vehicle", CAMERAS_PER_CROSSING)

    def entrance(self, number: int, near: Crossing) -> tuple[Device, ...]:
        """A checkpoint for people, a little off the street."""
        name, name_en = names.ENTRANCES[number]
        latitude = near.latitude + self._rng.uniform(0.002, 0.004)
        longitude = near.longitude + self._rng.uniform(0.002, 0.004)
        checkpoint = self._checkpoint(near, 2, name, name_en, latitude, longitude)
        return self._cameras(checkpoint, "face", 1 + number % 2)

    def _checkpoint(
        self, near: Crossing, group: int, name: str, name_en: str, latitude: float, longitude: float
    ) -> Checkpoint:
        checkpoint = Checkpoint(
            checkpoint_id=f"{near.district_id}#{len(self.checkpoints) + 1}#{group}#0",
            name=name,
            name_en=name_en,
            district_id=near.district_id,
            latitude=round(latitude, 6),
            longitude=round(longitude, 6),
        )
        self.checkpoints.append(checkpoint)
        return checkpoint

    def _cameras(self, checkpoint: Checkpoint, kind: str, count: int) -> tuple[Device, ...]:
        """Of two over a crossing the first sees the street from north to south."""
        return tuple(self._camera(checkpoint, kind, number) for number in range(1, count + 1))

    def _camera(self, checkpoint: Checkpoint, kind: str, number: int) -> Device:
        network = f"10.{checkpoint.district_id[-3:]}"
        smart = len(self.devices) % SMART_EVERY == SMART_EVERY - 1
        device = Device(
            camera_ip=f"{network}.{len(self.checkpoints)}.{number}",
            checkpoint_id=checkpoint.checkpoint_id,
            kind=kind,
            recognizer_ip="" if smart else f"{network}.0.254",
            bearing=90.0 * (number - 1) if kind == "vehicle" else None,
            lanes=LANES if kind == "vehicle" else (),
        )
        self.devices.append(device)
        return device


def _districts(graph: RoadGraph) -> Iterator[District]:
    """Each with the blocks around its crossings."""
    cells: dict[str, list[Cell]] = {}
    for crossing in graph.crossings:
        cells.setdefault(crossing.district_id, []).append((crossing.row, crossing.column))
    for district_id, name, name_en in names.DISTRICTS:
        area = outline(cells.get(district_id, ()))
        yield District(district_id=district_id, name=name, name_en=name_en, area=area)


def _roads(graph: RoadGraph, checkpoints: Sequence[str]) -> Iterator[Road]:
    """Every street as lines, each with all pieces of the street; one that the river cuts becomes
    several. `checkpoints`: by crossing."""
    streets = [
        *((words, [c for c in graph.crossings if c.row == row])
          for row, words in enumerate(names.WEST_EAST)),
        *((words, [c for c in graph.crossings if c.column == column])
          for column, words in enumerate(names.NORTH_SOUTH)),
    ]  # fmt: skip
    for (name, name_en), chain in streets:
        pieces = tuple(_pieces(graph, chain, checkpoints))
        for road in _stretches(graph, name, name_en, chain):
            yield msgspec.structs.replace(road, pieces=pieces)


def _pieces(
    graph: RoadGraph, chain: Sequence[Crossing], checkpoints: Sequence[str]
) -> Iterator[RoadPiece]:
    """From each crossing to the next one, both ways."""
    for a, b in pairwise(chain):
        if b.index in graph.seconds[a.index]:
            limit_kmh = RING_LIMIT_KMH if is_ring(a, b) else STREET_LIMIT_KMH
            for begin, end in ((a, b), (b, a)):
                yield RoadPiece(
                    begin=checkpoints[begin.index], end=checkpoints[end.index],
                    length_m=round(metres(a, b), 1), limit_kmh=limit_kmh,
                )  # fmt: skip


def _stretches(graph: RoadGraph, name: str, name_en: str, chain: list[Crossing]) -> Iterator[Road]:
    line = [chain[0]]
    for crossing in chain[1:]:
        if crossing.index not in graph.seconds[line[-1].index]:
            yield _road(name, name_en, line)
            line = []
        line.append(crossing)
    yield _road(name, name_en, line)


def _road(name: str, name_en: str, line: list[Crossing]) -> Road:
    return Road(name=name, name_en=name_en, line=tuple((c.latitude, c.longitude) for c in line))
