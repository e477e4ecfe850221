"""The watched cars of the city: one stolen, one cloned, one of which a witness remembers a part of
the plate, one that a witness describes, one that is misread, one that is looked for within an area,
one along a street, one on a list; their rules and the alarms they must raise.

Expected alarms are computed here, not with `alarm.rules`: the ground truth must not use the code
that it checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Protocol

from bus.contracts.commands import Command, WatchCommand
from bus.domain.confusion_table import PACKAGED
from bus.domain.misreading_prices import UNKNOWN, UNSAID
from bus.domain.reading_price import confidence_bands
from ingest.senders.simulator import area_car, described_car, listed_car, names
from ingest.senders.simulator.city_command import put_command
from ingest.senders.simulator.population import Vehicle, make_vehicle
from ingest.senders.simulator.record_builder import (
    CONFIDENCES_KEY,
    Message,
    further_candidates,
)
from ingest.senders.simulator.traffic import Traffic
from ingest.senders.simulator.world import CityWorld

STOLEN, CLONED, IMPOSTOR, FLED, NEIGHBOUR, MISREAD, LOOKALIKE = -1, -2, -3, -4, -5, -6, -7
DESCRIBED, RESEMBLING = -20, -21
IN_AREA, EASTBOUND = -30, -31
LISTED, UNLISTED = -40, -41
"""Vehicle numbers outside every fleet. The neighbour's plate differs from that of the car that fled
in its last digit, which the witness remembers; the lookalike's from that of the car that is misread
in one, which no camera takes for the other; that of the car that is on no list from the listed
one's in its last digit."""
_WATCHED = frozenset({
    STOLEN, CLONED, IMPOSTOR, FLED, MISREAD, DESCRIBED, IN_AREA, EASTBOUND, LISTED,
})  # fmt: skip
STOLEN_PACE = 3.0  # it does not keep to the limit
CLONED_PACE = 1.5
_MISREAD_AS = ("Q", "0")
"""In the plate of the car that is misread, and what cameras read."""
_HIGHEST = 0.5
"""Of its rule: cheaper than a character too few or too many."""


class CityRule(Protocol):
    """A rule of the city, and what it must find."""

    @property
    def rule_id(self) -> str:
        """Of the rule."""

    @property
    def name(self) -> str:
        """What operators read on its alarms."""

    @property
    def plate(self) -> str:
        """What it says of it, as patterns have it."""

    def command(self, version: int) -> Command:
        """What an operator would ask for."""

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm."""


@dataclass(frozen=True, slots=True)
class WatchRule:
    """One rule: a plate or a part of one (`?` one character, `*` any), and what the car must look
    like (English attribute -> wire key, value); or, with `highest`, a plate that may be misread."""

    rule_id: str
    name: str
    plate: str
    appearance: tuple[tuple[str, str, str], ...] = ()
    highest: float = 0.0

    def command(self, version: int) -> WatchCommand:
        """What an operator would put on the watch list."""
        wanted = f"~{self.highest}:{self.plate}" if self.highest else self.plate
        match = {"plate_number": [wanted]}
        match |= {attribute: [value] for attribute, _, value in self.appearance}
        return put_command(self.rule_id, version, self.name, match=match)

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm; of a part of a plate nobody is sure."""
        plate = message.get("车牌号码")
        if self.highest and isinstance(plate, str):
            return self._is_misreading(plate, str(message.get(CONFIDENCES_KEY, ""))) or any(
                self._is_misreading(one.plate, "", PACKAGED.prices.candidate(one.weight))
                for one in further_candidates(message)
            )
        return (
            isinstance(plate, str)
            and plate.isalnum()
            and fnmatchcase(plate, self.plate)
            and all(message.get(key) == value for _, key, value in self.appearance)
        )

    def _is_misreading(self, read: str, confidences: str, price: float = 0.0) -> bool:
        """Of as many characters, at most two of them others, which cost no more together: at such a
        price none is missing and none too many. `price`: of trying it at all."""
        if read == self.plate or len(read) != len(self.plate):
            return read == self.plate and price <= self.highest
        pairs = list(zip(self.plate, read, confidence_bands(confidences, read), strict=True))
        prices = PACKAGED.prices
        return sum(true != seen for true, seen, _ in pairs) <= 2 and (
            price + sum(prices.substitution(*pair) for pair in pairs) <= self.highest
        )


class WatchedCars:
    """The thirteen cars and the nine rules of one city. One rule is a list; one finds nothing."""

    def __init__(self, world: CityWorld, weekday: int = 0) -> None:
        """`weekday`: of the run's begin, 0 for Monday."""
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
        self.neighbour = replace(
            self.fled, number=NEIGHBOUR, plate_number=_with_next_digit(self.fled.plate_number)
        )
        self.misread = self._misread_car(make_vehicle(world.seed, MISREAD, count, letter=letter))
        plate = self.misread.plate_number
        self.lookalike = replace(
            self.misread,
            number=LOOKALIKE,
            plate_number=f"{plate[:-1]}{_other_digit(plate[-1])}",
            read_as="",
        )
        self.described = make_vehicle(world.seed, DESCRIBED, count, letter=letter)
        self.resembling = described_car.neighbour_of(self.described, RESEMBLING)
        self.in_area = make_vehicle(world.seed, IN_AREA, count, letter=letter)
        self.eastbound = make_vehicle(world.seed, EASTBOUND, count, letter=letter)
        self.listed = self._misread_car(make_vehicle(world.seed, LISTED, count, letter=letter))
        plate = self.listed.plate_number
        self.unlisted = replace(
            self.listed, number=UNLISTED, plate_number=_with_next_digit(plate), read_as=""
        )
        others = self.plates - {plate, self.listed.read_as}
        self.rules: tuple[CityRule, ...] = (
            *self._rules(world.seed),
            described_car.rule_of(world.seed, self.described, self.resembling),
            *area_car.rules_of(world, self.in_area, weekday),
            area_car.way_rule_of(world, self.eastbound),
            listed_car.rule_of(world.seed, plate, others),
        )

    @property
    def plates(self) -> frozenset[str]:
        """Of all of them, also of those that no rule is about, and what one is read as."""
        cars = (
            self.stolen, self.cloned, self.fled, self.neighbour, self.misread, self.lookalike,
            self.described, self.resembling, self.in_area, self.eastbound, self.listed,
            self.unlisted,
        )  # fmt: skip
        misread = self.misread.read_as, self.listed.read_as
        return frozenset((*(car.plate_number for car in cars), *misread))

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
        traffic.release(self.misread, everywhere, STOLEN_PACE)
        traffic.release(self.lookalike, everywhere, STOLEN_PACE)
        traffic.release(self.described, everywhere, STOLEN_PACE)
        traffic.release(self.resembling, everywhere, STOLEN_PACE)
        traffic.release(self.in_area, area_car.way_of(self._world), STOLEN_PACE)
        traffic.release(self.eastbound, area_car.street_of(self._world), STOLEN_PACE)
        traffic.release(self.listed, everywhere, STOLEN_PACE)
        traffic.release(self.unlisted, everywhere, STOLEN_PACE)

    def is_seen_twice(self, vehicle: Vehicle | None) -> bool:
        """By two lanes: one passage, which is to be one alarm."""
        return vehicle is not None and vehicle.number == STOLEN

    def is_watched(self, vehicle: Vehicle | None) -> bool:
        """Whether a rule may be about it."""
        return vehicle is not None and vehicle.number in _WATCHED

    def _rules(self, seed: int) -> tuple[WatchRule, ...]:
        appearance = (
            ("vehicle_color", "车辆颜色", self.impostor.vehicle_color),
            ("vehicle_brand", "车辆品牌", self.impostor.brand),
        )
        stolen, cloned = self.stolen.plate_number, self.cloned.plate_number
        misread = self.misread.plate_number
        seen = f"{self.fled.plate_number[0]}?*{self.fled.plate_number[-5:]}"
        return (
            WatchRule(f"city-{seed}-stolen", f"被盗车辆 stolen car {stolen}", stolen),
            WatchRule(f"city-{seed}-cloned", f"套牌车辆 cloned plate {cloned}", cloned, appearance),
            WatchRule(f"city-{seed}-fled", f"逃逸车辆 hit-and-run {seen}", seen),
            WatchRule(
                f"city-{seed}-misread", f"易误识车辆 misread plate {misread}", misread,
                highest=_HIGHEST,
            ),
        )  # fmt: skip

    @staticmethod
    def _misread_car(vehicle: Vehicle) -> Vehicle:
        """With a character in its plate that cameras take for another."""
        begin, digits = vehicle.plate_number[:-4], vehicle.plate_number[-3:]
        true, seen = (f"{begin}{sign}{digits}" for sign in _MISREAD_AS)
        return replace(vehicle, plate_number=true, read_as=seen)


def _with_next_digit(plate: str) -> str:
    """Another in its last character only."""
    return f"{plate[:-1]}{(int(plate[-1]) + 1) % 10}"


def _other_digit(digit: str) -> str:
    """One that it was never read as."""
    prices = PACKAGED.prices
    return next(
        other
        for other in "0123456789"
        if other != digit and prices.substitution(digit, other, UNSAID) == UNKNOWN
    )


def _other_appearance(seed: int, original: Vehicle, crossings: int) -> Vehicle:
    """The first vehicle of the fleet that looks different in brand and colour."""
    number = 0
    while True:
        vehicle = make_vehicle(seed, number, crossings)
        if vehicle.brand != original.brand and vehicle.vehicle_color != original.vehicle_color:
            return vehicle
        number += 1
