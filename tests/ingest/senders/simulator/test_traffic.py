"""Passes are deterministic, dense as asked, and possible."""

from __future__ import annotations

from itertools import pairwise

from ingest.senders.simulator.population import make_vehicle
from ingest.senders.simulator.traffic import HOUR_MS, Traffic, density
from ingest.senders.simulator.world import build_world

WORLD = build_world(2)
START_MS = 1_700_000_000_000


def traffic(rate: float = 20.0, hour: float = 8.0) -> Traffic:
    offset_ms = int(hour * HOUR_MS) - START_MS % (24 * HOUR_MS)
    return Traffic(WORLD, rate=rate, face_share=0.16, start_ms=START_MS, city_offset_ms=offset_ms)


def test_the_same_seed_and_start_give_the_same_passes_however_time_is_cut() -> None:
    whole = traffic().until(START_MS + 20_000)
    cut = traffic()
    parts = [p for end in range(500, 20_001, 500) for p in cut.until(START_MS + end)]
    assert [(p.at_ms, p.camera.camera_ip, p.vehicle, p.heading) for p in whole] == [
        (p.at_ms, p.camera.camera_ip, p.vehicle, p.heading) for p in parts
    ]


def test_the_morning_peak_has_about_the_rate_asked_for_from_the_first_minute_on() -> None:
    passes = traffic(rate=20).until(START_MS + 60_000)
    assert 0.75 * 20 < len(passes) / 60 < 1.2 * 20


def test_night_is_quiet() -> None:
    night = len(traffic(rate=20, hour=3.0).until(START_MS + 60_000))
    assert night < 0.25 * len(traffic(rate=20).until(START_MS + 60_000))


def test_at_rate_0_nothing_moves_not_even_a_watched_car() -> None:
    still = traffic(rate=0)
    crossings = tuple(range(len(WORLD.graph.crossings)))
    still.release(make_vehicle(WORLD.seed, 7, len(crossings)), crossings, pace=1.0)
    assert still.until(START_MS + 600_000) == []


def test_density_has_two_humps_and_no_jumps() -> None:
    steps = [density(minute * 60_000) for minute in range(24 * 60 + 1)]
    assert max(abs(a - b) for a, b in pairwise(steps)) < 0.01
    assert density(8 * HOUR_MS) > density(13 * HOUR_MS) < density(18 * HOUR_MS)


def test_no_vehicle_is_in_two_places_at_once_or_leaps_over_crossings() -> None:
    place = {d.camera_ip: i for i, cameras in enumerate(WORLD.street_cameras) for d in cameras
             for d in [d]}  # fmt: skip
    last: dict[int, tuple[int, int]] = {}
    for seen in traffic().until(START_MS + 150_000):
        if seen.vehicle is None:
            continue
        here = place[seen.camera.camera_ip]
        before = last.get(seen.vehicle.number)
        if before is not None and seen.at_ms - before[1] < 20_000:
            assert here == before[0] or here in WORLD.graph.seconds[before[0]]
        last[seen.vehicle.number] = (here, seen.at_ms)


def test_a_released_vehicle_roams_for_ever_among_its_crossings() -> None:
    roaming = traffic()
    car = make_vehicle(2, -1, 96, letter="Y")
    roaming.release(car, (0, 1, 2, 3), pace=3.0)
    seen = [p for p in roaming.until(START_MS + 300_000) if p.vehicle == car]
    assert len(seen) > 10
    assert seen[-1].at_ms > START_MS + 240_000
