"""Ways along roads of the register, and the directions of its lanes. Pure; all of it can be
pickled.

In: checkpoints, pieces of roads, devices. Out: which headings are meant where. Never: a guess: of
a record that says no direction, and whose lane has none in the register, there is no answer.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from bus.contracts.register import Checkpoint, Device, RoadPiece
from bus.contracts.travel_headings import Heading
from bus.domain.rule_values import DEVICE, DIRECTION, LANE, lane_form, normal
from bus.domain.travel_headings import HEADINGS, heading_of, headings_near

Attributes: TypeAlias = Mapping[str, str]
Headings: TypeAlias = frozenset[Heading]
NO_WAY: tuple[str, ...] = ()


class LaneHeadings:
    """Where the traffic of lanes goes to. Two are equal that say the same."""

    def __init__(self, by_lane: Mapping[tuple[str, str], Heading]) -> None:
        """By device and lane in comparable form; without a lane: of all that the device sees."""
        self._by_lane = by_lane

    def __eq__(self, other: object) -> bool:
        """By what they say."""
        if not isinstance(other, LaneHeadings):
            return NotImplemented
        return self is other or self._by_lane == other._by_lane

    def __hash__(self) -> int:
        """There is one for all rules of a register."""
        return len(self._by_lane)

    def of(self, attributes: Attributes) -> Heading | None:
        """Of a record: what it says itself, else what its lane has; None where neither is known."""
        said = heading_of(attributes.get(DIRECTION, ""))
        if said is not None or not self._by_lane:
            return said
        device = attributes.get(DEVICE, "")
        own = self._by_lane.get((device, attributes.get(LANE, "")))
        return own or self._by_lane.get((device, ""))


def lane_headings(devices: Iterable[Device]) -> LaneHeadings:
    """Of all that say one."""
    found: dict[tuple[str, str], Heading] = {}
    for device in devices:
        name = normal(device.camera_ip)
        if len(device.headings) == 1:
            found[name, ""] = device.headings[0]
        else:
            pairs = zip(device.lanes, device.headings, strict=False)
            found |= {(name, lane_form(lane)): heading for lane, heading in pairs}
    return LaneHeadings(found)


def shortest_way(
    pieces: Iterable[RoadPiece], begins: Collection[str], ends: Collection[str]
) -> tuple[str, ...]:
    """Checkpoints in comparable form, from one of `begins` to one of `ends` along directed pieces;
    `NO_WAY` where they do not lead there."""
    onward: dict[str, list[tuple[str, float]]] = {}
    for piece in pieces:
        onward.setdefault(normal(piece.begin), []).append((normal(piece.end), piece.length_m))
    before: dict[str, str] = {}
    metres = dict.fromkeys(begins, 0.0)
    queue = [(0.0, begin) for begin in sorted(begins)]
    while queue:
        gone, here = heapq.heappop(queue)
        if gone > metres[here]:
            continue
        if here in ends:
            way = [here]
            while way[-1] in before:
                way.append(before[way[-1]])
            return tuple(reversed(way))
        for there, length in onward.get(here, ()):
            if gone + length < metres.get(there, math.inf):
                metres[there], before[there] = gone + length, here
                heapq.heappush(queue, (gone + length, there))
    return NO_WAY


def headings_along(
    way: Iterable[str], checkpoints: Mapping[str, Checkpoint]
) -> Mapping[str, Headings]:
    """Of each checkpoint of a way: those of the piece that leads there and of that which leads
    on."""
    found: dict[str, Headings] = {}
    for begin, end in pairwise(way):
        near = _headings_between(checkpoints[begin], checkpoints[end])
        for one in (begin, end):
            found[one] = found.get(one, frozenset()) | near
    return found


def _headings_between(begin: Checkpoint, end: Checkpoint) -> Headings:
    """Two at one place have no direction: any is meant."""
    shrink = math.cos(math.radians((begin.latitude + end.latitude) / 2))
    east = (end.longitude - begin.longitude) * shrink
    north = end.latitude - begin.latitude
    if east == 0 and north == 0:
        return frozenset(HEADINGS)
    return headings_near(math.degrees(math.atan2(east, north)))


class WayHeadings(NamedTuple):
    """Which headings are meant at the checkpoints of a way, and at the devices that hang there."""

    by_checkpoint: Mapping[str, Headings]
    by_device: Mapping[str, Headings]
    lanes: LaneHeadings

    def has(self, checkpoint: str, device: str, attributes: Attributes) -> bool | None:
        """Whether a record that was made there travels along it; None where it says no
        direction."""
        heading = self.lanes.of(attributes)
        if heading is None:
            return None
        meant = self.by_checkpoint.get(checkpoint) or self.by_device.get(device, frozenset())
        return heading in meant
