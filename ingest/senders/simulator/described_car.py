"""A car that a witness describes: a part of its plate, its brand, a colour that it has not, and
that it drives fast. Only a rule with a tree finds it; its neighbour differs in colour and region.

Expected alarms are computed here, not with `alarm.rules`, as in `watched_cars`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Conjunction, Negation, NumericRange, OneOf, Substring
from bus.contracts.keys import UNREADABLE
from ingest.senders.simulator import names
from ingest.senders.simulator.city_command import put_command
from ingest.senders.simulator.population import Vehicle
from ingest.senders.simulator.record_builder import Message

FAST_KMH = 80
_SERIAL_CHARACTERS = 5


@dataclass(frozen=True, slots=True)
class DescribedCarRule:
    """What the witness says, as a rule. `plate`: the part of it, as patterns have it."""

    rule_id: str
    name: str
    serial: str
    brand: str
    other_colors: tuple[str, ...]

    @property
    def plate(self) -> str:
        """For the run's account."""
        return f"*{self.serial}*"

    def command(self, version: int) -> WatchCommand:
        """What an operator would put on the watch list."""
        return put_command(
            self.rule_id,
            version,
            self.name,
            where=Conjunction(
                parts=(
                    Substring(attribute="plate_number", text=self.serial),
                    OneOf(attribute="vehicle_brand", values=(self.brand,)),
                    Negation(part=OneOf(attribute="vehicle_color", values=self.other_colors)),
                    NumericRange(attribute="speed_kmh", above=FAST_KMH),
                )
            ),
        )

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm; a colour that was not read is no other one."""
        plate, speed = message.get("车牌号码"), message.get("车速")
        color = message.get("车辆颜色")
        return (
            isinstance(plate, str)
            and plate.isalnum()
            and self.serial in plate
            and message.get("车辆品牌") == self.brand
            and color is not None
            and color not in (UNREADABLE, *self.other_colors)
            and isinstance(speed, int)
            and speed > FAST_KMH
        )


def neighbour_of(described: Vehicle, number: int) -> Vehicle:
    """With the same serial, of another region, in another colour."""
    regions = (region for region, _ in names.PLATE_REGIONS)
    region = next(one for one in regions if not described.plate_number.startswith(one))
    colors = (color for color, _ in names.VEHICLE_COLORS)
    return replace(
        described,
        number=number,
        plate_number=f"{region}{described.plate_number[len(region):]}",
        vehicle_color=next(color for color in colors if color != described.vehicle_color),
    )


def rule_of(seed: int, described: Vehicle, neighbour: Vehicle) -> DescribedCarRule:
    """The witness remembers that it had not the colour of its neighbour."""
    serial = described.plate_number[-_SERIAL_CHARACTERS:]
    return DescribedCarRule(
        rule_id=f"city-{seed}-described",
        name=f"目击车辆 described car {described.brand} *{serial}",
        serial=serial,
        brand=described.brand,
        other_colors=(neighbour.vehicle_color,),
    )
