"""Where a record was made, as the register knows it at the moment."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.expressions import AlongRoad, AtPlace, InArea
from bus.contracts.register import Checkpoint, Device, Register, Road
from bus.contracts.register_entry import RegisterEntry
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces, is_beside
from bus.domain.rule_values import lane_form, normal, normal_as, wanted
from bus.domain.travel_headings import heading_of, named_heading
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


def test_a_way_follows_the_directed_pieces_of_a_road() -> None:
    """The shorter one of two; a piece to a checkpoint that the register lacks is none; where no
    pieces lead, there is no way, and nobody is on it."""
    way = PLACES.find_way(AlongRoad(road="环路", begin="c1", end="c3路口"))
    assert way.places.checkpoints == {"C1", "C2", "C3"}
    back = PLACES.find_way(AlongRoad(road="中山路", begin="c2", end="c1"))
    assert back.places.missing == ("way along 中山路 from c2 to c1",)
    assert back.has({"checkpoint_id": "C2", "direction": "由东向西"}) is None


@pytest.mark.parametrize(("value", "heading"), [
    ("由南向北", "north"), ("南到北", "north"), ("北", "north"), ("自 西南 往 东北", "north-east"),
    ("向西", "west"), ("西行", "west"), ("South-Eastbound", "south-east"), ("southeast", "south-east"),
    ("ｓｅ", "south-east"), ("1", "east"), ("2", "west"), ("3", "south"), ("4", "north"), ("5", "north-east"),
    ("6", "south-west"), ("7", "south-east"), ("8", "north-west"), ("9", None), ("0", None), ("210", None),
    ("由南向西", None), ("forward", None), ("识别异常", None), ("", None),
])  # fmt: skip
def test_directions_are_understood_as_devices_write_them(value: str, heading: str | None) -> None:
    """Words of both languages and the codes of GA/T 1400; of a code a person is asked for the word."""
    assert heading_of(normal(value)) == heading
    assert named_heading(normal(value)) == (None if value.isascii() and value.isdigit() else heading)


@pytest.mark.parametrize(("value", "lane"), [
    ("1", "1"), ("01", "1"), ("1.0", "1"), ("第2车道", "2"), ("车道 3", "3"), ("Lane 4", "4"), ("0", "0"),
    ("00", "0"), ("左转", "左转"), ("1a", "1A"), ("1-2", "1-2"), ("识别异常", ""), ("12345", "12345"),
])  # fmt: skip
def test_a_lane_has_one_form_however_it_is_numbered(value: str, lane: str) -> None:
    assert lane_form(value) == wanted("lane_id", value) == normal_as("lane_id", value) == lane


def test_an_entry_of_an_earlier_version_has_no_headings_and_is_read() -> None:
    """And what an earlier version does not know it passes over."""
    earlier = b'{"kind":"device","id":"d","device":{"camera_ip":"d","checkpoint_id":"c","kind":"vehicle","lanes":["1"]}}'
    device = msgspec.json.decode(earlier, type=RegisterEntry).device
    assert device is not None
    assert device.headings == ()
    assert RegisteredPlaces(Register(devices=(device,))).lanes.of({"camera_ip": "D", "lane_id": "1"}) is None


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
