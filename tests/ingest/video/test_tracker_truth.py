"""The tracker, alone on the truth of public films made worse by a seed, keeps who is who."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.bench.video.tracker_truth import (
    FILMS,
    MISSED,
    Boxes,
    compared,
    noisy,
    our_tracks,
    plain_tracks,
    score,
    truth,
)  # fmt: skip
from ingest.video.boxes import Box

SEEDS = (1, 2, 3)


def test_noisy_boxes_become_the_true_tracks() -> None:
    results = [compared(seed) for seed in SEEDS]
    print(f"seeds {SEEDS}: {results}")
    assert min(ours.mota for ours, _ in results) >= 0.90
    ours, plain = (sum(one[which].switches for one in results) for which in (0, 1))
    assert plain > 0, "the noise is no noise"
    assert ours <= plain / 2


@pytest.mark.parametrize("film", FILMS)
def test_the_noise_is_as_large_as_it_says(film: str) -> None:
    true = truth(film)
    found = noisy(true, np.random.default_rng(5))
    count = sum(len(boxes) for boxes in true.values())
    assert sum(map(len, found)) == pytest.approx(count * (1 - MISSED + 0.05), rel=0.05)


def test_the_truth_itself_has_the_best_score_and_a_swap_is_a_switch() -> None:
    walk: dict[int, dict[int, Box]] = {
        n: {1: Box(10 + 5 * n, 50, 30, 60), 2: Box(300 - 5 * n, 200, 30, 60)} for n in range(20)
    }
    swapped: Boxes = {
        n: {1: boxes[2], 2: boxes[1]} if n >= 10 else boxes for n, boxes in walk.items()
    }
    assert score([(walk, walk)]) == (1.0, 0)
    assert score([(walk, swapped)]).switches == 2


def test_without_noise_both_trackers_find_the_tracks() -> None:
    walk = [[Box(10 + 5 * n, 50, 30, 60), Box(300 - 5 * n, 200, 30, 60)] for n in range(20)]
    for tracks in (our_tracks(walk), plain_tracks(walk)):
        assert len({track for boxes in tracks.values() for track in boxes}) == 2
