"""A small register, and where a record was made by a plain reading of it."""

from __future__ import annotations

from collections.abc import Mapping

from bus.contracts.expressions import AlongRoad, AtPlace, InArea
from bus.contracts.register import Checkpoint, Device, District, Register, Road, RoadPiece
from bus.domain.polygons import do_overlap, is_within


def _checkpoint(name: str, district: str, east: float, north: float) -> Checkpoint:
    return Checkpoint(checkpoint_id=name, name=f"{name}路口", name_en=name, district_id=district,
                      latitude=north, longitude=east)  # fmt: skip


REGISTER = Register(
    districts=(
        District(district_id="330191", name="老城区", name_en="Old Town"),
        District(district_id="330192", name="湖滨区", name_en="Lake side"),
    ),
    checkpoints=(
        _checkpoint("c1", "330191", 120.05, 30.05), _checkpoint("c2", "330191", 120.25, 30.05),
        _checkpoint("c3", "330192", 120.25, 30.25), _checkpoint("and", "330192", 120.35, 30.35),
    ),
    devices=(
        Device(camera_ip="10.0.0.1", checkpoint_id="c1", kind="vehicle", lanes=("1", "02", "左转"),
               headings=("east", "west", "north")),
        Device(camera_ip="10.0.0.2", checkpoint_id="c3", kind="vehicle", headings=("south",)),
        Device(camera_ip="10.0.0.4", checkpoint_id="gone", kind="vehicle"),
        Device(camera_ip="10.0.0.5", checkpoint_id="c1", kind="vehicle",
               area=((30.2, 120.2), (30.2, 120.3), (30.3, 120.3))),
    ),
    roads=(
        Road(name="中山路", name_en="Zhongshan Rd",
             pieces=(RoadPiece(begin="c1", end="c2", length_m=900),)),
        Road(name="环路", name_en="Ring Rd", pieces=(
            RoadPiece(begin="c1", end="c2", length_m=900), RoadPiece(begin="c2", end="c3", length_m=900),
            RoadPiece(begin="c1", end="gone", length_m=1), RoadPiece(begin="gone", end="c3", length_m=1),
            RoadPiece(begin="c3", end="c1", length_m=5_000), RoadPiece(begin="c3", end="and", length_m=9),
        )),
        Road(name="直路", name_en="Line Rd", line=((30.05, 120.25), (30.25, 120.25))),
    ),
)  # fmt: skip
ON_ROAD = {"中山路": {"C1", "C2"}, "LINERD": {"C2", "C3"}}
"""By the name in comparable form."""
_EAST, _NORTH = {"north-east", "east", "south-east"}, {"north-west", "north", "north-east"}
_SOUTH_WEST = {"south", "south-west", "west"}
_ONWARD = {"north", "north-east", "east"}
ALONG: dict[tuple[str, str, str], dict[str, set[str]]] = {
    ("环路", "C1", "C2"): {"C1": _EAST, "C2": _EAST},
    ("环路", "C1", "C3路口"): {"C1": _EAST, "C2": _EAST | _NORTH, "C3": _NORTH},
    ("环路", "C1", "AND"): {"C1": _EAST, "C2": _EAST | _NORTH, "C3": _NORTH | _ONWARD, "AND": _ONWARD},
    ("环路", "C3", "AND"): {"C3": _ONWARD, "AND": _ONWARD},
    ("环路", "C3", "C2"): {"C3": _SOUTH_WEST, "C1": _SOUTH_WEST | _EAST, "C2": _EAST},
    ("中山路", "C1", "C2"): {"C1": _EAST, "C2": _EAST},
}
"""Ways by road, begin and end in comparable form, written down from the places above: which
directions are meant at each of their checkpoints."""
SAID = {
    "由西向东": "east", "1": "east", "3": "south", "NORTHBOUND": "north", "NE": "north-east",
}  # fmt: skip
OF_LANES = {("10.0.0.1", "1"): "east", ("10.0.0.1", "2"): "west", ("10.0.0.1", "左转"): "north"}


def heading_there(attributes: Mapping[str, str]) -> str | None:
    """What the record says, else what its lane has."""
    said = SAID.get(attributes.get("direction", ""))
    device = attributes.get("camera_ip", "")
    of_all = "south" if device == "10.0.0.2" else None
    return said or OF_LANES.get((device, attributes.get("lane_id", "")), of_all)


def is_along(leaf: AlongRoad, attributes: Mapping[str, str]) -> bool | None:
    """By the table of ways."""
    road = {"RINGRD": "环路"}.get("".join(leaf.road.split()).upper(), leaf.road)
    along = ALONG.get((road, leaf.begin.upper(), leaf.end.upper()))
    place, device = attributes.get("checkpoint_id", ""), attributes.get("camera_ip", "")
    known = {one.checkpoint_id.upper() for one in REGISTER.checkpoints}
    stands_at = {one.camera_ip: one.checkpoint_id.upper() for one in REGISTER.devices}
    at = place if place in known else stands_at.get(device, "")
    if along is None or at not in known:
        return None
    if at not in along:
        return False
    heading = heading_there(attributes)
    return None if heading is None else heading in along[at]


def is_there(leaf: AtPlace | InArea, attributes: Mapping[str, str]) -> bool | None:
    """By walks over the register."""
    place, device = attributes.get("checkpoint_id", ""), attributes.get("camera_ip", "")
    own = next((one for one in REGISTER.devices if one.camera_ip == device), None)
    known = {one.checkpoint_id.upper(): one for one in REGISTER.checkpoints}
    if isinstance(leaf, InArea):
        if own is not None and own.area:
            return do_overlap(leaf.corners, [(east, north) for north, east in own.area])
        at = known.get(place) or (known.get(own.checkpoint_id.upper()) if own else None)
        return None if at is None else is_within(leaf.corners, at.longitude, at.latitude)
    answers = [_is_named(leaf.kind, name, place, own, known) for name in leaf.names]
    return True if True in answers else None if None in answers else False


def _is_named(
    kind: str, name: str, place: str, own: Device | None, known: Mapping[str, Checkpoint]
) -> bool | None:
    asked = "".join(name.split()).upper()
    if kind == "device":
        there = {one.camera_ip for one in REGISTER.devices if one.checkpoint_id.upper() in known}
        is_known = own is not None and own.camera_ip in there and asked in there
        return own.camera_ip == asked if is_known and own else None
    at = known.get(place) or (known.get(own.checkpoint_id.upper()) if own else None)
    if kind == "road":
        return None if at is None or asked not in ON_ROAD else at.checkpoint_id.upper() in ON_ROAD[asked]
    if kind == "checkpoint":
        return None if at is None or asked not in known else at.checkpoint_id.upper() == asked
    names = {
        "".join(text.split()).upper(): one.district_id
        for one in REGISTER.districts for text in (one.district_id, one.name, one.name_en)
    }  # fmt: skip
    return None if at is None or asked not in names else at.district_id == names[asked]
