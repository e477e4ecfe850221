"""Places that rules name, as the register has them. Pure; it can be pickled.

In: a register, a leaf that asks for a place. Out: the checkpoints and devices that lie there, of
which an index makes its cells, so that a record costs no look at a polygon. Never: a guess: of a
record whose place the register does not know there is no answer.

A record's place is that of its checkpoint; where the register does not know that, of its device's
checkpoint. Of a polygon that is drawn a device with an area of its own is asked for that area. A
road is the checkpoints at the ends of its pieces; one without pieces those beside its line.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from bus.contracts.expressions import AlongRoad, AtPlace, Expression, InArea, PlaceKind
from bus.contracts.register import Checkpoint, Place, Polygon, Register, Road, RoadPiece
from bus.domain.polygons import Corner, box_of, do_overlap, which_within
from bus.domain.registered_ways import (
    LaneHeadings,
    WayHeadings,
    headings_along,
    lane_headings,
    shortest_way,
)
from bus.domain.rule_values import CHECKPOINT, DEVICE, normal

BESIDE_M = 30.0
"""From the line of a road that has no pieces to a checkpoint that stands at it."""
_METRES_PER_DEGREE = 111_320.0
MAX_FOUND = 1_000
"""Places that are remembered; all that 1,000 rules name."""
NOWHERE: frozenset[str] = frozenset()


class PlaceSets(NamedTuple):
    """What lies at a place, ids and addresses in comparable form. `known_checkpoints` and
    `known_devices` have a place at all; `devices_first`: of these the checkpoint does not count.
    `missing`: names that the register does not have."""

    checkpoints: frozenset[str]
    devices: frozenset[str]
    known_checkpoints: frozenset[str]
    known_devices: frozenset[str]
    devices_first: frozenset[str] = NOWHERE
    missing: tuple[str, ...] = ()

    def has(self, checkpoint: str, device: str) -> bool | None:
        """Whether a record of them was made there; None where that is not known."""
        found = self._of_known(checkpoint, device)
        return None if found is False and self.missing else found

    def _of_known(self, checkpoint: str, device: str) -> bool | None:
        if device in self.devices_first:
            return device in self.devices
        if checkpoint in self.known_checkpoints:
            return checkpoint in self.checkpoints
        return device in self.devices if device in self.known_devices else None


class WaySets(NamedTuple):
    """What lies along a road, and which way its traffic goes there."""

    places: PlaceSets
    headings: WayHeadings

    def has(self, attributes: Mapping[str, str]) -> bool | None:
        """Whether a record was made there and goes that way; None where that is not known."""
        checkpoint, device = attributes.get(CHECKPOINT, ""), attributes.get(DEVICE, "")
        answer = self.places.has(checkpoint, device)
        return self.headings.has(checkpoint, device, attributes) if answer else answer


class RegisteredPlaces:
    """Look-ups in one register. Two are equal where their registers are."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self._found: dict[AtPlace | InArea, PlaceSets] = {}
        self._ways: dict[AlongRoad, WaySets] = {}

    def __eq__(self, other: object) -> bool:
        """By the register."""
        if not isinstance(other, RegisteredPlaces):
            return NotImplemented
        return self.register is other.register or self.register == other.register

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[RegisteredPlaces], tuple[Register]]:
        """Look-ups are made where they are first needed."""
        return RegisteredPlaces, (self.register,)

    def find(self, leaf: AtPlace | InArea | AlongRoad) -> PlaceSets:
        """What lies there now, or along it; found once, for matching, index and explanation."""
        if isinstance(leaf, AlongRoad):
            return self.find_way(leaf).places
        found = self._found.get(leaf)
        if found is None:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = self._found[leaf] = self._find(leaf)
        return found

    def find_way(self, leaf: AlongRoad) -> WaySets:
        """The same of a way along a road, with the directions in which it leads."""
        found = self._ways.get(leaf)
        if found is None:
            if len(self._ways) >= MAX_FOUND:
                self._ways.clear()
            found = self._ways[leaf] = self._find_way(leaf)
        return found

    def checkpoints_at(self, leaf: Expression) -> frozenset[str]:
        """Those that a leaf asks for; of one that asks for no place, none."""
        if isinstance(leaf, AtPlace | InArea | AlongRoad):
            return self.find(leaf).checkpoints
        return NOWHERE

    @cached_property
    def lanes(self) -> LaneHeadings:
        """One for all rules."""
        return lane_headings(self.register.devices)

    def checkpoints_of_road(self, name: str) -> list[Checkpoint]:
        """Those along its pieces, from west to east; none of a road without pieces."""
        found = {
            normal(end) for piece in self._pieces_of(name) for end in (piece.begin, piece.end)
        }
        return [self._checkpoints[one] for _, _, one in self._from_west if one in found]

    def _pieces_of(self, road: str) -> list[RoadPiece]:
        """Whose ends are known, of all roads of that name."""
        return [
            piece
            for one in self._roads.get(normal(road), [])
            for piece in one.pieces
            if {normal(piece.begin), normal(piece.end)} <= self._known_checkpoints
        ]

    def _find_way(self, leaf: AlongRoad) -> WaySets:
        pieces = self._pieces_of(leaf.road)
        on_road = {normal(end) for piece in pieces for end in (piece.begin, piece.end)}
        names = self._by_name["checkpoint"]
        begins, ends = (
            names.get(normal(one), NOWHERE) & on_road for one in (leaf.begin, leaf.end)
        )
        way = shortest_way(pieces, begins, ends)
        headings = headings_along(way, self._checkpoints)
        by_device = {
            device: meant
            for one, meant in headings.items()
            for device in self._devices_at.get(one, ())
        }
        missing = () if headings else (f"way along {leaf.road} from {leaf.begin} to {leaf.end}",)
        places = self._sets(frozenset(headings), missing=missing)
        return WaySets(places, WayHeadings(headings, by_device, self.lanes))

    def _find(self, leaf: AtPlace | InArea) -> PlaceSets:
        if isinstance(leaf, InArea):
            return self._within(leaf)
        found = [self._named(leaf.kind, name) for name in leaf.names]
        missing = tuple(
            name for name, ids in zip(leaf.names, found, strict=True) if ids is None
        )
        ids = NOWHERE.union(*(one for one in found if one is not None))
        if leaf.kind == "device":
            known = self._known_devices
            return PlaceSets(NOWHERE, ids, NOWHERE, known, known, missing)
        return self._sets(ids, missing=missing)

    def describe(self, checkpoint: str, device: str) -> str:
        """Where a record was made, for people; empty where that is not known."""
        known = checkpoint if checkpoint in self._checkpoints else self._checkpoint_of.get(device)
        found = self._checkpoints.get(known or "")
        if found is None:
            return ""
        district = found.district_id
        names = (one.name for one in self.register.districts if one.district_id == district)
        return ", ".join(filter(None, (found.name or found.checkpoint_id, next(names, ""))))

    def district_of(self, checkpoint: str, device: str) -> str:
        """The id of the district where a record was made; empty where that is not known."""
        written = normal(checkpoint)
        known = written if written in self._checkpoints else self._checkpoint_of.get(normal(device))
        found = self._checkpoints.get(known or "")
        return found.district_id if found is not None else ""

    def checkpoint_ids(self, comparable: frozenset[str]) -> list[str]:
        """As the register writes them."""
        return [one.checkpoint_id for name, one in self._checkpoints.items() if name in comparable]

    def _sets(
        self,
        checkpoints: frozenset[str],
        areas: Mapping[str, bool] | None = None,
        missing: tuple[str, ...] = (),
    ) -> PlaceSets:
        """`areas`: of devices with an area of their own, whether that counts."""
        by_area = areas or {}
        devices = {device for one in checkpoints for device in self._devices_at.get(one, ())}
        devices -= by_area.keys()
        devices |= {device for device, is_met in by_area.items() if is_met}
        return PlaceSets(
            checkpoints, frozenset(devices), self._known_checkpoints, self._known_devices,
            frozenset(by_area), missing,
        )  # fmt: skip

    def _within(self, leaf: InArea) -> PlaceSets:
        box = box_of(leaf.corners)
        begin = bisect_left(self._from_west, box.west, key=lambda one: one[0])
        end = bisect_right(self._from_west, box.east, key=lambda one: one[0])
        near = [one for one in self._from_west[begin:end] if box.has(one[0], one[1])]
        within = which_within(leaf.corners, [(east, north) for east, north, _ in near])
        checkpoints = frozenset(
            name for (_, _, name), is_met in zip(near, within, strict=True) if is_met
        )
        areas = {name: do_overlap(leaf.corners, own) for name, own in self._device_areas.items()}
        return self._sets(checkpoints, areas)

    def _named(self, kind: PlaceKind, name: str) -> frozenset[str] | None:
        """Checkpoints, or devices, of that name; None where there is none."""
        if kind != "road":
            return self._by_name[kind].get(normal(name))
        roads = self._roads.get(normal(name))
        return None if roads is None else NOWHERE.union(*map(self._of_road, roads))

    @cached_property
    def _checkpoints(self) -> Mapping[str, Checkpoint]:
        return {normal(one.checkpoint_id): one for one in self.register.checkpoints}

    @cached_property
    def _checkpoint_of(self) -> Mapping[str, str]:
        """Of devices whose place is known."""
        found = (
            (normal(one.camera_ip), normal(one.checkpoint_id)) for one in self.register.devices
        )
        return {device: place for device, place in found if place in self._checkpoints}

    @cached_property
    def _known_checkpoints(self) -> frozenset[str]:
        """One for all that is found: an executor is sent it once."""
        return frozenset(self._checkpoints)

    @cached_property
    def _known_devices(self) -> frozenset[str]:
        return frozenset(self._checkpoint_of)

    @cached_property
    def _devices_at(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for device, checkpoint in self._checkpoint_of.items():
            found.setdefault(checkpoint, []).append(device)
        return found

    @cached_property
    def _device_areas(self) -> Mapping[str, list[Corner]]:
        return {
            normal(one.camera_ip): _corners(one.area) for one in self.register.devices if one.area
        }

    @cached_property
    def _from_west(self) -> list[tuple[float, float, str]]:
        """Longitude, latitude and id of each checkpoint."""
        return sorted((at.longitude, at.latitude, name) for name, at in self._checkpoints.items())

    @cached_property
    def _by_name(self) -> Mapping[PlaceKind, Mapping[str, frozenset[str]]]:
        districts: dict[str, set[str]] = {}
        for one in self.register.districts:
            own = {
                name for name, at in self._checkpoints.items() if at.district_id == one.district_id
            }
            _note(districts, (one.district_id, one.name, one.name_en), own)
        checkpoints: dict[str, set[str]] = {}
        for name, at in self._checkpoints.items():
            _note(checkpoints, (at.checkpoint_id, at.name, at.name_en), {name})
        devices: dict[str, set[str]] = {device: {device} for device in self._checkpoint_of}
        tables: dict[PlaceKind, dict[str, set[str]]] = {
            "district": districts, "checkpoint": checkpoints, "device": devices,
        }  # fmt: skip
        return {
            kind: {name: frozenset(ids) for name, ids in table.items()}
            for kind, table in tables.items()
        }

    @cached_property
    def _roads(self) -> Mapping[str, list[Road]]:
        found: dict[str, list[Road]] = {}
        for road in self.register.roads:
            for name in {normal(road.name), normal(road.name_en)} - {""}:
                found.setdefault(name, []).append(road)
        return found

    def _of_road(self, road: Road) -> set[str]:
        ends = {normal(end) for piece in road.pieces for end in (piece.begin, piece.end)}
        if road.pieces:
            return ends & self._checkpoints.keys()
        return {
            name
            for name, at in self._checkpoints.items()
            if is_beside(road.line, at.latitude, at.longitude)
        }


NO_PLACES = RegisteredPlaces(Register())


def _corners(polygon: Polygon) -> list[Corner]:
    return [(longitude, latitude) for latitude, longitude in polygon]


def is_beside(line: Iterable[Place], latitude: float, longitude: float) -> bool:
    """Whether a place is at most `BESIDE_M` from a line."""
    shrink = math.cos(math.radians(latitude))
    places = [
        ((east - longitude) * shrink * _METRES_PER_DEGREE, (north - latitude) * _METRES_PER_DEGREE)
        for north, east in line
    ]
    return any(_distance_m(*begin, *end) <= BESIDE_M for begin, end in pairwise(places))


def _distance_m(x: float, y: float, to_x: float, to_y: float) -> float:
    """From the origin to a stretch."""
    along_x, along_y = to_x - x, to_y - y
    length = along_x**2 + along_y**2
    share = 0.0 if length == 0 else max(0.0, min(1.0, -(x * along_x + y * along_y) / length))
    return math.hypot(x + share * along_x, y + share * along_y)


def _note(table: dict[str, set[str]], names: Iterable[str], ids: Iterable[str]) -> None:
    """Under each of its names; of two things of one name both are meant."""
    for name in {normal(one) for one in names} - {""}:
        table.setdefault(name, set()).update(ids)
