"""Tubes are placed where they cost least: all of them, apart from each other, as those who met."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ingest.video.boxes import Box
from ingest.video.synopsis.energy import LEFT_OUT, TubeEnergy
from ingest.video.synopsis.placement import arranged
from ingest.video.synopsis.tubes import Tube, TubePoint, dense_tubes

SIZE, FPS = (640, 360), 10.0


def walker(track: int, begin: int, frames: int, y: float = 100, back: bool = False) -> Tube:
    points = []
    for n in range(frames):
        at = frames - n if back else n
        points.append(TubePoint(begin + n, Box(6.0 * at, y, 30, 80), "person"))
    return dense_tubes(track, points, FPS)[0]


def energy_of(tubes: list[Tube], length: int, order: float = 0.0) -> TubeEnergy:
    return TubeEnergy(tubes, length, SIZE, FPS, order)


def rng(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_those_who_walk_the_same_way_follow_each_other() -> None:
    tubes = [walker(n, 1000 * n, 50) for n in range(3)]
    energy = energy_of(tubes, 70)
    starts = sorted(int(one) for one in arranged(energy, 4, rng()))
    assert all(after - before >= 5 for before, after in itertools.pairwise(starts))
    assert energy.total() == pytest.approx(0)


def test_nobody_is_left_out_even_in_a_crowd() -> None:
    tubes = [walker(n, 500 * n, 60) for n in range(12)]
    assert LEFT_OUT not in arranged(energy_of(tubes, 62), 2, rng())


def test_those_who_met_meet_again() -> None:
    tubes = [walker(1, 0, 60, y=100), walker(2, 20, 60, y=150, back=True)]
    first, second = arranged(energy_of(tubes, 90), 4, rng())
    assert second - first == 20


def test_who_came_first_is_first_when_order_is_asked_for() -> None:
    tubes = [walker(n, 70 * n, 40, y=40 * n) for n in range(6)]
    starts = arranged(energy_of(tubes, 80, order=5.0), 6, rng())
    assert list(starts) == sorted(starts)


def test_annealing_is_never_worse_than_the_greedy_placement_and_repeats() -> None:
    seed = 11
    print(f"seed {seed}")
    drawn = np.random.default_rng(seed)
    tubes = [
        walker(n, int(drawn.integers(0, 500)), int(drawn.integers(20, 70)),
               float(drawn.integers(0, 280)), bool(drawn.integers(2)))
        for n in range(14)
    ]  # fmt: skip
    greedy, annealed = energy_of(tubes, 80, 0.2), energy_of(tubes, 80, 0.2)
    arranged(greedy, 0, rng())
    starts = arranged(annealed, 6, rng())
    assert annealed.total() <= greedy.total() + 1e-6
    assert list(starts) == list(arranged(energy_of(tubes, 80, 0.2), 6, rng()))


def test_costs_are_what_the_energy_grows_by() -> None:
    tubes = [walker(1, 0, 40), walker(2, 10, 50, y=120, back=True), walker(3, 300, 45, y=90)]
    energy = energy_of(tubes, 60, 0.5)
    for number in range(3):
        energy.place(number, 3 * number)
    whole = energy.total()
    energy.place(2, LEFT_OUT)
    costs = energy.costs(2)
    without = energy.total() - energy.left_out_cost(2)
    assert whole - without == pytest.approx(costs[6], rel=1e-4)


def test_two_on_one_another_are_counted_frame_by_frame() -> None:
    tubes = [walker(1, 0, 40), walker(2, 900, 40)]
    energy = energy_of(tubes, 40)
    energy.place(0, 0)
    assert energy.collisions(1)[0] == pytest.approx(40, rel=0.35), "cells are coarser than boxes"


def test_a_tube_longer_than_the_synopsis_is_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        energy_of([walker(1, 0, 41)], 40)


def test_an_hours_synopsis_counts_in_steps() -> None:
    tubes = [walker(n, 100 * n, 90) for n in range(4)]
    energy = energy_of(tubes, 1500)
    starts = arranged(energy, 1, rng())
    assert energy.step == 6
    assert all(0 <= start <= 1500 - 90 for start in starts)
