"""Tracks follow targets that move, cross and hide; no box belongs to two."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from ingest.video.boxes import Box, Detection
from ingest.video.tracker import CONFIRMED_LOOKS, NEW, SURE, Tracker
from ingest.video.tracks import Track

LOOK_MS = 200


def at(x: float, y: float, score: float = 0.9) -> Detection:
    return Detection(Box(x, y, 40, 100), score, "person")


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


def test_who_is_half_hidden_goes_on_by_boxes_that_begin_nothing() -> None:
    doubtful = (SURE - 0.2, NEW - 0.01)
    looks = [[at(10 + 8 * n, 50, score=doubtful[n % 2] if n > 4 else 0.9)] for n in range(20)]
    [track] = run(Tracker(1000), looks)
    assert len(track.sightings) == 20
    assert run(Tracker(1000), [one for one in looks if one[0].score < 0.9]) == []


def test_a_box_that_is_not_seen_again_at_once_is_a_track_of_its_own_that_ended() -> None:
    """What a detector sees once is mostly nothing: whoever comes there later is another."""
    looks = [[at(50, 50)], [], *[[at(50, 50)] for _ in range(CONFIRMED_LOOKS)]]
    assert [len(track.sightings) for track in run(Tracker(1000), looks)] == [1, CONFIRMED_LOOKS]


def test_who_comes_out_from_behind_another_is_known_by_his_colours() -> None:
    """Both stop behind a pillar and go back: by their speed each would be taken for the other."""
    red, blue = (np.array(one, np.float32) for one in ((1, 0), (0, 1)))
    tracker, ended = Tracker(3000), []
    for n in range(30):
        hidden, back = 10 <= n < 14, max(0, n - 12)
        left, right = at(100 + 8 * min(n, 10) - 8 * back, 50), at(300 - 8 * min(n, 10) + 8 * back, 50)
        seen, colours = ([], []) if hidden else ([left, right], [red, blue])
        ended += tracker.step(n * LOOK_MS, seen, colours)
    ended += tracker.finish()
    assert len(ended) == 2
    for track in ended:
        xs = [one.detection.box.x for one in track.sightings]
        assert max(xs) < 200 or min(xs) > 200


def test_a_person_is_not_the_bicycle_that_he_rides() -> None:
    bicycle = Detection(Box(0, 40, 40, 60), 0.9, "vehicle")
    tracks = run(Tracker(1000), [[at(0, 0), bicycle], [bicycle], [at(0, 0), bicycle]])
    kinds = [{one.detection.kind for one in track.sightings} for track in tracks]
    assert sorted(map(sorted, kinds)) == [["person"], ["person"], ["vehicle"]]


def test_the_best_sighting_is_the_surest() -> None:
    looks = [[at(10 + n, 50, score=0.9 if n == 3 else 0.6)] for n in range(8)]
    [track] = run(Tracker(1000), looks)
    assert track.best.at_ms == 3 * LOOK_MS
    kind, sure = track.kind
    assert kind == "person"
    assert sure == pytest.approx((0.9 + 7 * 0.6) / 8)


def test_time_must_grow() -> None:
    tracker = Tracker(1000)
    tracker.step(100, [])
    with pytest.raises(ValueError, match="must grow"):
        tracker.step(100, [])


@pytest.mark.parametrize("seed", range(5))
def test_no_box_belongs_to_two_tracks_whatever_is_seen(seed: int) -> None:
    rng = random.Random(seed)
    looks = [
        [at(rng.uniform(0, 700), rng.uniform(0, 400), rng.random()) for _ in range(rng.randrange(6))]
        for _ in range(60)
    ]
    tracks = run(Tracker(600), looks)
    seen = [(s.at_ms, s.detection) for t in tracks for s in t.sightings]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= {(n * LOOK_MS, one) for n, found in enumerate(looks) for one in found}
    assert len(seen) >= sum(one.score >= NEW for found in looks for one in found)
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
