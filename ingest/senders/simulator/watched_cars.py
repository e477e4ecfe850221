"""The watched cars of the city: one stolen, one cloned, one of which a witness remembers a part of
the plate, one that a witness describes; their rules and the alarms they must raise.

Expected alarms are computed here, not with `alarm.rules`: the ground truth must not use the code
that it checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bus.contracts.commands import WatchCommand
from ingest.senders.simulator import described_car, names
from ingest.senders.simulator.population import Vehicle, make_vehicle
from ingest.senders.simulator.record_builder import Message
from ingest.senders.simulator.traffic import Traffic
from ingest.senders.simulator.world import CityWorld

STOLEN, CLONED, IMPOSTOR, FLED, NEIGHBOUR = -1, -2, -3, -4, -5
DESCRIBED, RESEMBLING = -20, -21
"""Vehicle numbers outside every fleet. The neighbour's plate differs from that of the car that fled
in its last digit, which the witness remembers."""
_WATCHED = frozenset({STOLEN, CLONED, IMPOSTOR, FLED, DESCRIBED})
STOLEN_PACE = 3.0  # it does not keep to the limit
CLONED_PACE = 1.5


@dataclass(frozen=True, slots=True)
class WatchRule:
    """One rule: a plate or a part of one (`?` one character, `*` any), and what the car must look
    like (English attribute -> wire key, value)."""

    rule_id: str
    name: str
    plate: str
    appearance: tuple[tuple[str, str, str], ...] = ()

    def command(self, version: int) -> WatchCommand:
        """What an operator would put on the watch list."""
        match = {"plate_number": [self.plate]}
        match |= {attribute: [value] for attribute, _, value in self.appearance}
        return WatchCommand(
            rule_id=self.rule_id,
            op="put",
            version=version,
            name=self.name,
            severity="critical",
            match=match,
            author=names.RULE_AUTHOR,
        )

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm; of a part of a plate nobody is sure."""
        plate = message.get("车牌号码")
        return (
            isinstance(plate, str)
            and plate.isalnum()
            and fnmatchcase(plate, self.plate)
            and all(message.get(key) == value for _, key, value in self.appearance)
        )


class WatchedCars:
    """The seven cars and the four rules of one city."""

    def __init__(self, world: CityWorld) -> None:
        self._world = world
        count = len(world.graph.crossings)
        letter = names.WATCHED_LETTER
        self.stolen = make_vehicle(world.seed, STOLEN, count, letter=letter)
        self.cloned = make_vehicle(world.seed, CLONED, count, letter=letter)
        self.impostor = replace(
            _other_appearance(world.seed, self.cloned, count),
            number=IMPOSTOR,
            plate_number=self.cloned.plate_number,
            plate_color=self.cloned.plate_color,
        )
        self.fled = make_vehicle(world.seed, FLED, count, letter=letter)
        plate = self.fled.plate_number
        self.neighbour = replace(
            self.fled, number=NEIGHBOUR, plate_number=f"{plate[:-1]}{(int(plate[-1]) + 1) % 10}"
        )
        self.described = make_vehicle(world.seed, DESCRIBED, count, letter=letter)
        self.resembling = described_car.neighbour_of(self.described, RESEMBLING)
        self.rules: tuple[WatchRule | described_car.DescribedCarRule, ...] = (
            *self._rules(world.seed),
            described_car.rule_of(world.seed, self.described, self.resembling),
        )

    @property
    def plates(self) -> frozenset[str]:
        """Of all of them, also of those that no rule is about."""
        cars = (
            self.stolen, self.cloned, self.fled, self.neighbour, self.described, self.resembling
        )  # fmt: skip
        return frozenset(car.plate_number for car in cars)

    def release(self, traffic: Traffic) -> None:
        """Send the cars on their way: the original in the west, its clone in the far east."""
        everywhere = tuple(c.index for c in self._world.graph.crossings)
        west = tuple(c.index for c in self._world.graph.crossings if c.column <= 4)
        east = tuple(c.index for c in self._world.graph.crossings if c.column >= 8)
        traffic.release(self.stolen, everywhere, STOLEN_PACE)
        traffic.release(self.cloned, west, CLONED_PACE)
        traffic.release(self.impostor, east, CLONED_PACE)
        traffic.release(self.fled, everywhere, STOLEN_PACE)
        traffic.release(self.neighbour, everywhere, STOLEN_PACE)
        traffic.release(self.described, everywhere, STOLEN_PACE)
        traffic.release(self.resembling, everywhere, STOLEN_PACE)

    def is_watched(self, vehicle: Vehicle | None) -> bool:
        """Whether a rule may be about it."""
        return vehicle is not None and vehicle.number in _WATCHED

    def alarms(self, message: Message) -> tuple[str, ...]:
        """Rule ids of the alarms that this valid vehicle record must raise."""
        return tuple(watch.rule_id for watch in self.rules if watch.matches(message))

    def _rules(self, seed: int) -> tuple[WatchRule, ...]:
        appearance = (
            ("vehicle_color", "车辆颜色", self.impostor.vehicle_color),
            ("vehicle_brand", "车辆品牌", self.impostor.brand),
        )
        stolen, cloned = self.stolen.plate_number, self.cloned.plate_number
        seen = f"{self.fled.plate_number[0]}?*{self.fled.plate_number[-5:]}"
        return (
            WatchRule(f"city-{seed}-stolen", f"被盗车辆 stolen car {stolen}", stolen),
            WatchRule(f"city-{seed}-cloned", f"套牌车辆 cloned plate {cloned}", cloned, appearance),
            WatchRule(f"city-{seed}-fled", f"逃逸车辆 hit-and-run {seen}", seen),
        )


def _other_appearance(seed: int, original: Vehicle, crossings: int) -> Vehicle:
    """The first vehicle of the fleet that looks different in brand and colour."""
    number = 0
    while True:
        vehicle = make_vehicle(seed, number, crossings)
        if vehicle.brand != original.brand and vehicle.vehicle_color != original.vehicle_color:
            return vehicle
        number += 1
