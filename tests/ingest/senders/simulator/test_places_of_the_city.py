"""The register of the city has what rules name, and its story needs it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from bus.contracts.commands import USUAL_QUIET_S
from bus.contracts.expressions import AlongRoad, AtPlace
from bus.domain.polygons import is_within
from bus.domain.register_changes import entries_of, faults
from bus.domain.registered_places import RegisteredPlaces
from ingest.senders.simulator.area_car import COLUMNS, ROW, ROWS
from ingest.senders.simulator.names import NORTH_SOUTH, WEST_EAST
from ingest.senders.simulator.street_blocks import block, outline
from ingest.senders.simulator.world import build_world
from tests.ingest.senders.simulator.test_generator import SPAN_MS, START_MS, assembly


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_the_register_has_no_fault_and_each_crossing_lies_in_its_district(seed: int) -> None:
    """And in no other; roads go both ways."""
    world = build_world(seed)
    assert list(faults(entries_of(world.register))) == []
    areas = {one.district_id: one.area for one in world.register.districts}
    for crossing in world.graph.crossings:
        found = [
            district_id
            for district_id, parts in areas.items()
            for part in parts
            if is_within([(e, n) for n, e in part], crossing.longitude, crossing.latitude)
        ]
        assert found == [crossing.district_id]
    pieces = {(p.begin, p.end) for road in world.register.roads for p in road.pieces}
    assert pieces == {(end, begin) for begin, end in pieces}


def test_a_road_is_all_crossings_of_the_street_also_beyond_the_river() -> None:
    world = build_world(1)
    road = world.register.roads[-1]
    found = RegisteredPlaces(world.register).find(AtPlace(kind="road", names=(road.name,)))
    on_it = [one for one in world.register.checkpoints if one.name.endswith(f"{road.name}路口")]
    assert found.checkpoints == {one.checkpoint_id for one in on_it}


def test_blocks_together_have_one_outline() -> None:
    """Of an L its six corners; blocks that do not meet are two parts."""
    assert len(outline([(0, 0), (1, 0), (1, 1)])[0]) == 6
    assert set(outline([(0, 0)])[0]) == set(block(range(1), range(1)))
    assert len(outline([(0, 0), (3, 3)])) == 2


def test_the_car_of_the_area_is_also_seen_outside_of_it_where_it_raises_nothing() -> None:
    """What is looked for on another day is never found."""
    made = assembly(1)
    car = made.watched_cars.in_area.plate_number
    inside, rules = Counter[bool](), Counter[str]()
    world = made.world
    there = {
        world.street_cameras[c.index][0].checkpoint_id
        for c in world.graph.crossings if c.row in ROWS and c.column in COLUMNS
    }  # fmt: skip
    for record in made.until(START_MS + SPAN_MS):
        if record.line.expected == "valid" and record.line.kind == "vehicle":
            message = msgspec.json.decode(record.body)
            if message.get("车牌号码") == car:
                is_there = message["卡口编号"] in there
                inside[is_there] += 1
                assert bool(record.line.alarms) is is_there
                rules.update(record.line.alarms)
    assert inside[True]
    assert inside[False]
    assert list(rules) == ["city-1-area"]


@pytest.mark.parametrize("seed", [1, 7])
def test_the_car_of_the_street_raises_alarms_in_one_direction_only(seed: int) -> None:
    """It is the same car at the same checkpoints: who asks for the place alone is told too much."""
    made = assembly(seed)
    car = made.watched_cars.eastbound.plate_number
    alarms: dict[str, set[tuple[str, ...]]] = {}
    places: dict[str, set[str]] = {}
    for record in made.until(START_MS + SPAN_MS):
        if record.line.expected == "valid" and record.line.kind == "vehicle":
            message = msgspec.json.decode(record.body)
            if message.get("车牌号码") == car:
                alarms.setdefault(message["行驶方向"], set()).add(tuple(record.line.alarms))
                places.setdefault(message["行驶方向"], set()).add(message["卡口编号"])
    assert alarms.pop("由南向北") == {()}, "where it begins: no direction of the street"
    assert alarms == {"由西向东": {(f"city-{seed}-way",)}, "由东向西": {()}}
    assert places["由西向东"] & places["由东向西"]


@pytest.mark.parametrize("seed", range(8))
def test_what_cameras_call_a_direction_is_that_of_the_piece_of_road(seed: int) -> None:
    """Whichever way the streets have grown: else the city's truth and the rule differ."""
    world = build_world(seed)
    places = RegisteredPlaces(world.register)
    names_of = {one.checkpoint_id: one for one in world.register.checkpoints}
    for road, towards, back in [(WEST_EAST[ROW], "east", "west"), (NORTH_SOUTH[4], "south", "north")]:
        ids = [one.checkpoint_id for one in places.checkpoints_of_road(road[0])]
        ids.sort(key=lambda one: names_of[one].longitude if towards == "east" else -names_of[one].latitude)
        for heading, (begin, end) in ((towards, (ids[0], ids[-1])), (back, (ids[-1], ids[0]))):
            way = places.find_way(AlongRoad(road=road[0], begin=begin, end=end))
            assert len(way.headings.by_checkpoint) == len(ids)
            for meant in way.headings.by_checkpoint.values():
                assert meant & {"north", "east", "south", "west"} == {heading}


def test_the_stolen_car_is_seen_by_two_lanes_within_the_quiet_time() -> None:
    """Each of its passages, so that the account compares what is suppressed."""
    made = assembly(1)
    rule_id = "city-1-stolen"
    at_ms = [r.at_ms for r in made.until(START_MS + SPAN_MS) if rule_id in r.line.alarms]
    near = sum(later - at < USUAL_QUIET_S * 1000 for at, later in pairwise(at_ms))
    assert near >= len(at_ms) // 3
