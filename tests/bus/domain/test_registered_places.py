"""Where a record was made, as the register knows it at the moment."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.expressions import AtPlace, InArea
from bus.contracts.register import Checkpoint, Device, Register, Road
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces, is_beside
from tests.alarm.rules.made_places import REGISTER

PLACES = RegisteredPlaces(REGISTER)
AROUND_C1 = InArea(corners=((120, 30), (120.1, 30), (120.1, 30.1), (120, 30.1)))


@pytest.mark.parametrize(("checkpoint", "device", "expected"), [
    ("C1", "", True), ("C2", "", False), ("UNKNOWN", "10.0.0.1", True), ("UNKNOWN", "10.0.0.2", False),
    ("C2", "10.0.0.1", False), ("UNKNOWN", "10.0.0.4", None), ("", "", None),
    ("C1", "10.0.0.5", False),
])  # fmt: skip
def test_a_record_is_where_its_checkpoint_is_else_where_its_device_stands(
    checkpoint: str, device: str, expected: bool | None
) -> None:
    """Of a polygon a device with an area of its own is asked for that; what is not known of is
    neither within nor outside."""
    assert PLACES.find(AROUND_C1).has(checkpoint, device) is expected


def test_a_device_with_an_area_has_a_place_though_its_checkpoint_is_unknown() -> None:
    device = Device(camera_ip="10.0.0.9", checkpoint_id="gone", kind="vehicle",
                    area=((30.0, 120.0), (30.0, 120.05), (30.05, 120.0)))  # fmt: skip
    places = RegisteredPlaces(Register(devices=(device,)))
    assert places.find(AROUND_C1).has("", "10.0.0.9") is True


def test_a_name_that_the_register_lacks_is_met_by_no_record_nor_its_negation() -> None:
    """Of several names those that there are count."""
    both = PLACES.find(AtPlace(kind="district", names=("老城区", "nowhere")))
    assert both.missing == ("nowhere",)
    assert both.has("C1", "") is True
    assert both.has("C3", "") is None
    assert NO_PLACES.find(AtPlace(kind="road", names=("中山路",))).has("C1", "10.0.0.1") is None


def test_a_road_is_the_ends_of_its_pieces_else_what_stands_beside_its_line() -> None:
    """Thirty metres; a metre further is another road's."""
    assert PLACES.find(AtPlace(kind="road", names=("Zhongshan Rd",))).checkpoints == {"C1", "C2"}
    assert PLACES.find(AtPlace(kind="road", names=("直路",))).checkpoints == {"C2", "C3"}
    line = ((30.0, 120.0), (30.0, 120.01))
    assert is_beside(line, 30.0 + 29 / 111_320, 120.005)
    assert not is_beside(line, 30.0 + 31 / 111_320, 120.005)
    assert not is_beside(((30.0, 120.0),), 30.0, 120.0)


def test_two_roads_of_one_name_are_both_meant() -> None:
    register = msgspec.structs.replace(REGISTER, roads=(
        *REGISTER.roads, Road(name="另一条", name_en="Zhongshan Rd", line=((30.25, 120.25), (30.35, 120.35))),
    ))  # fmt: skip
    found = RegisteredPlaces(register).find(AtPlace(kind="road", names=("zhongshan rd",)))
    assert found.checkpoints == {"C1", "C2", "C3", "AND"}


def test_places_are_described_for_people() -> None:
    assert PLACES.describe("C1", "") == "c1路口, 老城区"
    assert PLACES.describe("UNKNOWN", "10.0.0.2") == "c3路口, 湖滨区"
    assert PLACES.describe("UNKNOWN", "") == ""


def test_a_register_with_other_places_is_another_one() -> None:
    """Else rules would not be compiled again; the same in other objects is the same."""
    again = msgspec.convert(msgspec.to_builtins(REGISTER), Register)
    moved = msgspec.structs.replace(REGISTER, checkpoints=(
        *REGISTER.checkpoints[1:],
        Checkpoint(checkpoint_id="c1", name="", name_en="", district_id="330191", latitude=1, longitude=1),
    ))  # fmt: skip
    assert RegisteredPlaces(again) == PLACES
    assert RegisteredPlaces(moved) != PLACES


@pytest.mark.parametrize(("checkpoint", "device", "expected"), [
    ("C1", "", "330191"), ("c1 ", "", "330191"), ("UNKNOWN", "10.0.0.1", "330191"), ("UNKNOWN", "10.0.0.4", ""), ("", "", ""),
])  # fmt: skip
def test_a_district_is_that_of_the_checkpoint_else_of_the_devices(
    checkpoint: str, device: str, expected: str
) -> None:
    assert PLACES.district_of(checkpoint, device) == expected
