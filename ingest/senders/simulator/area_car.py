"""A car that is looked for within an area: passes anywhere else are none of the rule's, and at
these hours it is not looked for in its district at all. Another one that is looked for along a
street in one direction: it drives to and fro.

Expected alarms are computed here, not with `alarm.rules`, as in `watched_cars`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Expression,
    InArea,
    Substring,
    TimeWindow,
)
from bus.domain.expressions.time_window import WEEKDAYS
from ingest.senders.simulator import names
from ingest.senders.simulator.city_command import put_command
from ingest.senders.simulator.population import Vehicle
from ingest.senders.simulator.record_builder import Message
from ingest.senders.simulator.roads import Crossing
from ingest.senders.simulator.street_blocks import block
from ingest.senders.simulator.world import CityWorld

ROWS, COLUMNS = range(1, 5), range(2, 8)
"""Of the crossings in the area: a part of three districts."""
ROW, BEGIN, END = 2, 3, 5
"""Of the street along which the other one drives, and between which columns."""
_EASTWARDS = 1  # of `names.DIRECTIONS`
_SERIAL_CHARACTERS = 5


@dataclass(frozen=True, slots=True)
class AreaCarRule:
    """A part of a plate at a place. `checkpoints`: whose records it is about; empty: none, since it
    is another day."""

    rule_id: str
    name: str
    serial: str
    where: Expression
    checkpoints: frozenset[str]
    direction: str = ""
    """In the words of cameras; empty: any."""

    @property
    def plate(self) -> str:
        """For the run's account."""
        return f"*{self.serial}*"

    def command(self, version: int) -> WatchCommand:
        """What an operator would put on the watch list."""
        return put_command(
            self.rule_id, version, self.name, severity="warning", where=self.where
        )

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm."""
        plate = message.get("车牌号码")
        return (
            isinstance(plate, str)
            and plate.isalnum()
            and self.serial in plate
            and message.get("卡口编号") in self.checkpoints
            and self.direction in ("", message.get("行驶方向"))
        )


def way_of(world: CityWorld) -> tuple[int, ...]:
    """The crossings between which it drives: it begins within the area, and leaves it again and
    again."""
    around = [
        crossing for crossing in world.graph.crossings
        if crossing.row <= ROWS.stop and crossing.column <= COLUMNS.stop + 1
    ]  # fmt: skip
    around.sort(key=lambda one: not _is_within(one))
    return tuple(crossing.index for crossing in around)


def _is_within(crossing: Crossing) -> bool:
    return crossing.row in ROWS and crossing.column in COLUMNS


def rules_of(world: CityWorld, vehicle: Vehicle, weekday: int) -> tuple[AreaCarRule, ...]:
    """In the area at any hour; in the district of its first crossing on a day that is three days
    from `weekday`, 0 for Monday."""
    serial = vehicle.plate_number[-_SERIAL_CHARACTERS:]
    part = Substring(attribute="plate_number", text=serial)
    there = [crossing for crossing in world.graph.crossings if _is_within(crossing)]
    area = InArea(corners=tuple((east, north) for north, east in block(ROWS, COLUMNS)))
    districts = {one.district_id: one.name for one in world.register.districts}
    district = AtPlace(kind="district", names=(districts[there[0].district_id],))
    other_day = TimeWindow(days=(WEEKDAYS[(weekday + 3) % 7],), zone="Asia/Shanghai")
    return (
        AreaCarRule(
            f"city-{world.seed}-area", f"区域内车辆 car within an area *{serial}", serial,
            Conjunction(parts=(part, area)),
            frozenset(_checkpoint_of(world, one) for one in there),
        ),
        AreaCarRule(
            f"city-{world.seed}-hours", f"其他时段车辆 car at another hour *{serial}", serial,
            Conjunction(parts=(part, district, other_day)), frozenset(),
        ),
    )  # fmt: skip


def street_of(world: CityWorld) -> tuple[int, ...]:
    """The crossings between which the other one drives: each way is along the street."""
    return tuple(one.index for one in _street(world) if one.column in (BEGIN, END))


def way_rule_of(world: CityWorld, vehicle: Vehicle) -> AreaCarRule:
    """Eastwards only."""
    serial = vehicle.plate_number[-_SERIAL_CHARACTERS:]
    part = Substring(attribute="plate_number", text=serial)
    street = [_checkpoint_of(world, one) for one in _street(world)]
    way = AlongRoad(road=names.WEST_EAST[ROW][0], begin=street[0], end=street[-1])
    return AreaCarRule(
        f"city-{world.seed}-way", f"东行车辆 car going east *{serial}", serial,
        Conjunction(parts=(part, way)), frozenset(street), names.DIRECTIONS[_EASTWARDS],
    )  # fmt: skip


def _street(world: CityWorld) -> list[Crossing]:
    """From west to east."""
    columns = range(BEGIN, END + 1)
    return [
        one for one in world.graph.crossings if one.row == ROW and one.column in columns
    ]


def _checkpoint_of(world: CityWorld, crossing: Crossing) -> str:
    return world.street_cameras[crossing.index][0].checkpoint_id
