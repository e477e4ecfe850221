"""Tracks follow targets that move, cross and hide; no box belongs to two."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ingest.video.tracks import Box, Detection, Track, Tracker, without_covered

LOOK_MS = 200


def at(x: float, y: float, **more: object) -> Detection:
    return Detection(Box(x, y, 40, 100), **more)  # type: ignore[arg-type]


def run(tracker: Tracker, looks: list[list[Detection]]) -> list[Track]:
    ended = []
    for number, found in enumerate(looks):
        ended += tracker.step(number * LOOK_MS, found)
    return ended + tracker.finish()


def test_a_walker_is_one_track_from_first_to_last_sight() -> None:
    tracks = run(Tracker(1000), [[at(10 + 8 * n, 50)] for n in range(20)])
    assert [(t.first_ms, t.last_ms, len(t.sightings)) for t in tracks] == [(0, 19 * LOOK_MS, 20)]


def test_two_who_pass_each_other_keep_their_numbers() -> None:
    looks = [[at(10 + 12 * n, 50), at(400 - 12 * n, 90)] for n in range(33)]
    tracks = run(Tracker(1000), looks)
    assert len(tracks) == 2
    for track in tracks:
        xs = [s.detection.box.x for s in track.sightings]
        assert xs in (sorted(xs), sorted(xs, reverse=True))


def test_who_is_hidden_for_a_moment_is_the_same_afterwards() -> None:
    looks = [[] if 8 <= n < 11 else [at(10 + 10 * n, 50)] for n in range(20)]
    assert len(run(Tracker(1000), looks)) == 1


def test_who_is_hidden_for_longer_than_lost_is_another() -> None:
    looks = [[] if 8 <= n < 16 else [at(50, 50)] for n in range(24)]
    first, second = run(Tracker(1000), looks)
    assert (first.number, second.number) == (1, 2)
    assert first.last_ms < second.first_ms


def test_the_best_sighting_is_the_surest() -> None:
    looks = [[at(10 + n, 50, score=0.9 if n == 3 else 0.4, person=n < 4)] for n in range(8)]
    [track] = run(Tracker(1000), looks)
    assert track.best.at_ms == 3 * LOOK_MS
    assert track.person_share == pytest.approx(0.5)


def test_a_blob_that_is_mostly_a_person_is_that_person() -> None:
    person = Detection(Box(100, 100, 50, 120), 0.9, True)
    legs = Detection(Box(105, 150, 40, 60))
    car = Detection(Box(300, 100, 120, 80))
    assert without_covered([legs, car], [person]) == [car]


def test_time_must_grow() -> None:
    tracker = Tracker(1000)
    tracker.step(100, [])
    with pytest.raises(ValueError, match="must grow"):
        tracker.step(100, [])


@pytest.mark.parametrize("seed", range(5))
def test_every_box_belongs_to_exactly_one_track_whatever_is_seen(seed: int) -> None:
    rng = random.Random(seed)
    looks = [
        [at(rng.uniform(0, 700), rng.uniform(0, 400)) for _ in range(rng.randrange(6))]
        for _ in range(60)
    ]
    tracks = run(Tracker(600), looks)
    seen = [(s.at_ms, s.detection) for t in tracks for s in t.sightings]
    assert len(seen) == sum(map(len, looks))
    assert len(set(seen)) == len(seen)
    assert sorted(t.number for t in tracks) == list(range(1, len(tracks) + 1))
    for track in tracks:
        times = [s.at_ms for s in track.sightings]
        assert times == sorted(set(times))
        assert all(b - a <= 600 for a, b in pairwise(times))


@pytest.mark.parametrize("seed", range(3))
def test_overlap_is_symmetric_and_between_nothing_and_one(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        a, b = (Box(*(rng.uniform(1, 50) for _ in range(4))) for _ in range(2))
        assert a.overlap(b) == pytest.approx(b.overlap(a))
        assert 0 <= a.overlap(b) <= 1
        assert a.overlap(a) == pytest.approx(1)
