"""The watched cars of the city: one stolen, one cloned; their rules and the alarms they must raise.

In: the world, messages. Out: `WatchCommand`s, and the rule ids that one record must alarm. Computed
here on its own, not with `alarm.rules`: the truth must not borrow the judgement it checks.
Never: clock, I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bus.contracts.commands import WatchCommand
from ingest.city import names
from ingest.city.population import Vehicle, make_vehicle
from ingest.city.records import Message
from ingest.city.traffic import Traffic
from ingest.city.world import World

STOLEN, CLONED, IMPOSTOR = -1, -2, -3  # vehicle numbers outside every fleet
STOLEN_PACE = 3.0  # it does not keep to the limit
CLONED_PACE = 1.5
AUTHOR = "city"


@dataclass(frozen=True, slots=True)
class Watch:
    """One rule: a plate, and what the car must look like (English attribute -> wire key, value)."""

    rule_id: str
    name: str
    plate: str
    looks: tuple[tuple[str, str, str], ...] = ()

    def command(self, version: int) -> WatchCommand:
        """What an operator would put on the watch list."""
        match = {"plate_number": [self.plate]}
        match |= {attribute: [value] for attribute, _, value in self.looks}
        return WatchCommand(
            rule_id=self.rule_id,
            op="put",
            version=version,
            name=self.name,
            severity="critical",
            match=match,
            author=AUTHOR,
        )

    def meets(self, message: Message) -> bool:
        """Whether this record must raise the alarm."""
        return message.get("车牌号码") == self.plate and all(
            message.get(key) == value for _, key, value in self.looks
        )


class Watched:
    """The three cars and the two rules of one city."""

    def __init__(self, world: World) -> None:
        self._world = world
        count = len(world.graph.crossings)
        letter = names.WATCHED_LETTER
        self.stolen = make_vehicle(world.seed, STOLEN, count, letter=letter)
        self.cloned = make_vehicle(world.seed, CLONED, count, letter=letter)
        self.impostor = replace(
            _other_looks(world.seed, self.cloned, count),
            number=IMPOSTOR,
            plate_number=self.cloned.plate_number,
            plate_color=self.cloned.plate_color,
        )
        self.watches = self._watches(world.seed)

    def release(self, traffic: Traffic) -> None:
        """Send the cars on their way: the original in the west, its clone in the far east."""
        everywhere = tuple(c.index for c in self._world.graph.crossings)
        west = tuple(c.index for c in self._world.graph.crossings if c.column <= 4)
        east = tuple(c.index for c in self._world.graph.crossings if c.column >= 8)
        traffic.release(self.stolen, everywhere, STOLEN_PACE)
        traffic.release(self.cloned, west, CLONED_PACE)
        traffic.release(self.impostor, east, CLONED_PACE)

    def alarms(self, message: Message) -> tuple[str, ...]:
        """Rule ids of the alarms that this valid vehicle record must raise."""
        return tuple(watch.rule_id for watch in self.watches if watch.meets(message))

    def _watches(self, seed: int) -> tuple[Watch, ...]:
        looks = (
            ("vehicle_color", "车辆颜色", self.impostor.vehicle_color),
            ("vehicle_brand", "车辆品牌", self.impostor.brand),
        )
        stolen, cloned = self.stolen.plate_number, self.cloned.plate_number
        return (
            Watch(f"city-{seed}-stolen", f"被盗车辆 stolen car {stolen}", stolen),
            Watch(f"city-{seed}-cloned", f"套牌车辆 cloned plate {cloned}", cloned, looks),
        )


def _other_looks(seed: int, original: Vehicle, crossings: int) -> Vehicle:
    """The first vehicle of the fleet that looks different in brand and colour."""
    number = 0
    while True:
        vehicle = make_vehicle(seed, number, crossings)
        if vehicle.brand != original.brand and vehicle.vehicle_color != original.vehicle_color:
            return vehicle
        number += 1
