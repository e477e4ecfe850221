"""An area that a search is restricted to: its text, and what of the register stands there. Pure.

In: corners as text, a register. Out: ids as the register writes them, or `AreaFault` with what to
do. Never: another opinion than a rule `within (…)` has of what lies in an area.
"""

from __future__ import annotations

import msgspec

from bus.contracts.expressions import InArea
from bus.domain.expressions.to_text import corners_text
from bus.domain.polygons import LEAST_CORNERS, Corner, polygon_fault, without_closing
from bus.domain.registered_places import NOWHERE, RegisteredPlaces
from bus.domain.rule_values import normal

MAX_CORNERS = 50
"""A person draws fewer, and an address has to hold them."""
MAX_AREA_CHARACTERS = 32 * MAX_CORNERS
_HOW = "longitude and latitude of each corner, as 120.15 30.25, 120.17 30.25, 120.16 30.27"


class AreaFault(ValueError):
    """No area; the text says what to do. `code`: what is wrong, for other languages."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class SearchedArea(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in an area: checkpoints, and devices whose own area overlaps it. `elsewhere`:
    devices with an area of their own that does not, wherever they hang; `hanging`: the others that
    hang at one of the checkpoints, which count where the register does not know the checkpoint that
    a record names; `known`: all checkpoints that it knows."""

    text: str
    checkpoints: frozenset[str] = NOWHERE
    devices: frozenset[str] = NOWHERE
    elsewhere: frozenset[str] = NOWHERE
    hanging: frozenset[str] = NOWHERE
    known: frozenset[str] = NOWHERE

    def has(self, checkpoint_id: str, camera_ip: str) -> bool:
        """Whether a record of them was made there."""
        if camera_ip in self.devices or camera_ip in self.elsewhere:
            return camera_ip in self.devices
        if checkpoint_id in self.known:
            return checkpoint_id in self.checkpoints
        return camera_ip in self.hanging

    @property
    def own_devices(self) -> frozenset[str]:
        """Those by which a record is there, whatever checkpoint it names."""
        return self.devices | self.hanging

    @property
    def place_count(self) -> int:
        """Checkpoints and devices that a store may look up each by itself."""
        return len(self.checkpoints) + len(self.own_devices)


def read_area(text: str) -> tuple[Corner, ...]:
    """`120.15 30.25, 120.17 30.25, 120.16 30.27`. Raises `AreaFault`."""
    if len(text) > MAX_AREA_CHARACTERS:
        raise AreaFault(f"more than {MAX_CORNERS} corners", "area_corners")
    corners = without_closing([_corner(one) for one in text.replace("，", ",").split(",")])
    if not LEAST_CORNERS <= len(corners) <= MAX_CORNERS:
        raise AreaFault(
            f"an area has {LEAST_CORNERS} to {MAX_CORNERS} corners, not {len(corners)}",
            "area_corners",
        )
    fault = polygon_fault(corners)
    if fault is not None:
        raise AreaFault(f"corner {fault.corner + 1}: {fault.text}", fault.code)
    return corners


def _corner(text: str) -> Corner:
    try:
        east, north = map(float, text.split())
    except ValueError:
        raise AreaFault(f"{text.strip()[:40]!r} is no corner: write {_HOW}", "no_place") from None
    return east, north


def searched_area(text: str, places: RegisteredPlaces) -> SearchedArea:
    """Raises `AreaFault`."""
    corners = read_area(text)
    found = places.find(InArea(corners=corners))
    register = places.register
    by_area = {one.camera_ip: normal(one.camera_ip) in found.devices
               for one in register.devices if one.area}  # fmt: skip
    return SearchedArea(
        text=corners_text(corners),
        checkpoints=frozenset(places.checkpoint_ids(found.checkpoints)),
        devices=frozenset(one for one, is_there in by_area.items() if is_there),
        elsewhere=frozenset(one for one, is_there in by_area.items() if not is_there),
        hanging=frozenset(
            one.camera_ip
            for one in register.devices
            if not one.area and normal(one.camera_ip) in found.devices
        ),
        known=frozenset(register.checkpoint_by_id),
    )
