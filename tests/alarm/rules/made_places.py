"""A small register, and where a record was made by a plain reading of it."""

from __future__ import annotations

from collections.abc import Mapping

from bus.contracts.expressions import AtPlace, InArea
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
        Device(camera_ip="10.0.0.1", checkpoint_id="c1", kind="vehicle"),
        Device(camera_ip="10.0.0.2", checkpoint_id="c3", kind="vehicle"),
        Device(camera_ip="10.0.0.4", checkpoint_id="gone", kind="vehicle"),
        Device(camera_ip="10.0.0.5", checkpoint_id="c1", kind="vehicle",
               area=((30.2, 120.2), (30.2, 120.3), (30.3, 120.3))),
    ),
    roads=(
        Road(name="中山路", name_en="Zhongshan Rd",
             pieces=(RoadPiece(begin="c1", end="c2", length_m=900),)),
        Road(name="直路", name_en="Line Rd", line=((30.05, 120.25), (30.25, 120.25))),
    ),
)  # fmt: skip
ON_ROAD = {"中山路": {"C1", "C2"}, "LINERD": {"C2", "C3"}}
"""By the name in comparable form."""


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
