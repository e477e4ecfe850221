"""What stands in the city: checkpoints, cameras, recognition servers, and the register of them all.
The same seed gives the same city."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bus.contracts.register import Checkpoint, Device, District, Register, Road
from ingest.senders.simulator import names
from ingest.senders.simulator.roads import Crossing, RoadGraph, build_roads

SMART_EVERY = 3  # every third camera recognises by itself (W-6); two thirds hang behind servers
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
        districts=tuple(District(district_id=i, name=n, name_en=e) for i, n, e in names.DISTRICTS),
        checkpoints=tuple(place.checkpoints),
        devices=tuple(place.devices),
        roads=tuple(_roads(graph)),
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
        return tuple(self._camera(checkpoint, kind, number) for number in range(1, count + 1))

    def _camera(self, checkpoint: Checkpoint, kind: str, number: int) -> Device:
        network = f"10.{checkpoint.district_id[-3:]}"
        smart = len(self.devices) % SMART_EVERY == SMART_EVERY - 1
        device = Device(
            camera_ip=f"{network}.{len(self.checkpoints)}.{number}",
            checkpoint_id=checkpoint.checkpoint_id,
            kind=kind,
            recognizer_ip="" if smart else f"{network}.0.254",
        )
        self.devices.append(device)
        return device


def _roads(graph: RoadGraph) -> Iterator[Road]:
    """Every street as lines; one that the river cuts becomes several."""
    for row, (name, name_en) in enumerate(names.WEST_EAST):
        chain = [c for c in graph.crossings if c.row == row]
        yield from _stretches(graph, name, name_en, chain)
    for column, (name, name_en) in enumerate(names.NORTH_SOUTH):
        chain = [c for c in graph.crossings if c.column == column]
        yield from _stretches(graph, name, name_en, chain)


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
