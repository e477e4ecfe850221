"""Where a target is expected, and how sure that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.boxes import Box
from ingest.video.motion_model import MotionModel


def walker(at_s: float) -> Box:
    return Box(100 + 40 * at_s, 50, 30, 80)


@pytest.mark.parametrize("looks_per_second", [5, 10, 25])
def test_who_walks_on_is_expected_where_he_will_be(looks_per_second: int) -> None:
    model = MotionModel.create(walker(0))
    for look in range(1, 3 * looks_per_second):
        model.advance(1 / looks_per_second)
        model.correct(walker(look / looks_per_second))
    model.advance(1.0)
    expected = walker(3 - 1 / looks_per_second + 1)
    assert model.box.coordinates == pytest.approx(expected.coordinates, abs=4)
    assert model.distance(expected) < 1


def test_the_longer_nobody_sees_him_the_farther_he_may_have_gone() -> None:
    aside = Box(100, 150, 30, 80)
    model = MotionModel.create(walker(0))
    found = [model.distance(aside)]
    for _ in range(5):
        model.advance(0.5)
        found.append(model.distance(aside))
    assert found == sorted(found, reverse=True)
    assert found[0] > 16 > found[-1]


boxes = st.builds(Box, st.floats(-100, 2000), st.floats(-100, 2000), st.floats(1, 800), st.floats(1, 800))


@given(st.lists(st.tuples(st.floats(0.01, 5), boxes), min_size=1, max_size=30))
def test_whatever_is_seen_its_box_is_one_and_its_doubt_is_positive(seen: list[tuple[float, Box]]) -> None:
    model = MotionModel.create(seen[0][1])
    for passed_s, box in seen:
        model.advance(passed_s)
        doubt = model.spread.copy()
        model.correct(box)
        own, both, speed = model.spread
        assert (own > 0).all()
        assert (speed > 0).all()
        assert (own * speed - both**2 > -1e-6 * own * speed).all()
        assert (own <= doubt[0]).all()
        assert min(model.box.w, model.box.h) >= 1
        assert model.distance(box) >= 0
