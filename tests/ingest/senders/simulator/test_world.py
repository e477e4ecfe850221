"""The city is the same for the same seed, and its register is whole."""

from __future__ import annotations

from itertools import pairwise

from bus.contracts.register import decode_register, encode_register
from ingest.senders.simulator.roads import build_roads
from ingest.senders.simulator.world import build_world


def test_the_same_seed_builds_the_same_city_and_another_seed_another() -> None:
    assert build_world(5).register == build_world(5).register
    assert build_world(5).register != build_world(6).register


def test_every_crossing_can_be_reached_from_every_other() -> None:
    graph = build_roads(3)
    for goal in range(0, len(graph.crossings), 7):
        for start in range(len(graph.crossings)):
            way = graph.path(start, goal)
            assert (way[0], way[-1]) == (start, goal)
            assert all(b in graph.seconds[a] for a, b in pairwise(way))


def test_the_river_is_crossed_on_bridges_only() -> None:
    graph = build_roads(3)
    across = {
        (graph.crossings[a].column, graph.crossings[b].column)
        for a in range(len(graph.crossings))
        for b in graph.seconds[a]
        if {graph.crossings[a].row, graph.crossings[b].row} == {5, 6}
    }
    assert across == {(1, 1), (4, 4), (6, 6), (9, 9)}


def test_two_thirds_of_the_cameras_hang_behind_servers_and_one_third_is_smart() -> None:
    devices = build_world(1).register.devices
    smart = sum(not device.recognizer_ip for device in devices)
    assert abs(smart / len(devices) - 1 / 3) < 0.01
    assert len({device.camera_ip for device in devices}) == len(devices)


def test_every_device_hangs_at_a_registered_checkpoint_in_a_registered_district() -> None:
    register = build_world(1).register
    districts = {district.district_id for district in register.districts}
    assert 60 <= len(register.checkpoints) <= 200
    assert all(register.district_of(d.checkpoint_id) in districts for d in register.devices)


def test_the_register_survives_its_file() -> None:
    register = build_world(1).register
    assert decode_register(encode_register(register)) == register
