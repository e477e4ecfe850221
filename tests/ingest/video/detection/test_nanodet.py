"""What the model's numbers mean: which cell, which class, how far the sides are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingest.video.detection.nanodet import BINS, FILLED, MEAN, SIDE_PX, STRIDES, detections, fitted

Floats = NDArray[np.float32]
CLASSES = 80
PERSON, CAR, BUS, DOG = 0, 2, 5, 16


def nothing() -> tuple[list[Floats], list[Floats]]:
    cells = [(SIDE_PX // stride) ** 2 for stride in STRIDES]
    return (
        [np.zeros((1, n, CLASSES), np.float32) for n in cells],
        [np.zeros((1, n, 4 * BINS), np.float32) for n in cells],
    )


def put(
    outputs: tuple[list[Floats], list[Floats]], grid: int, cell: int, kind: int, score: float, sides: tuple[int, ...]
) -> None:
    """A cell that is sure of each side, so many strides away."""
    scores, distances = outputs
    scores[grid][0, cell, kind] = score
    for side, far in enumerate(sides):
        distances[grid][0, cell, side * BINS + far] = 50.0


def test_a_cell_says_where_a_target_is_from_its_own_centre() -> None:
    outputs = nothing()
    put(outputs, 1, 26 * 10 + 5, PERSON, 0.9, (1, 2, 1, 3))
    [found] = detections(*outputs, 1.0, (SIDE_PX, SIDE_PX))
    x, y = 5.5 * 16, 10.5 * 16
    assert found.box.coordinates == pytest.approx((x - 16, y - 32, 32, 80))
    assert found.kind == "person"
    assert found.score == pytest.approx(0.9)


def test_boxes_are_in_pixels_of_the_picture_and_end_at_its_edge() -> None:
    outputs = nothing()
    put(outputs, 0, 0, CAR, 0.8, (10, 10, 10, 10))
    [found] = detections(*outputs, 0.5, (832, 832))
    assert found.box.coordinates == pytest.approx((0, 0, 168, 168))
    [found] = detections(*outputs, 0.5, (100, 60))
    assert found.box.coordinates == pytest.approx((0, 0, 60, 100))


def test_a_car_and_a_bus_at_one_place_are_one_vehicle_and_a_dog_is_none() -> None:
    outputs = nothing()
    for cell, kind, score in ((400, CAR, 0.7), (400, BUS, 0.6), (401, BUS, 0.65), (900, DOG, 0.9)):
        put(outputs, 0, cell, kind, score, (8, 8, 8, 8))
    [found] = detections(*outputs, 1.0, (SIDE_PX, SIDE_PX))
    assert found.kind == "vehicle"
    assert found.score == pytest.approx(0.7)


def test_a_person_on_a_motorcycle_is_both() -> None:
    outputs = nothing()
    put(outputs, 0, 400, PERSON, 0.7, (8, 8, 8, 8))
    put(outputs, 0, 401, 3, 0.6, (8, 8, 8, 8))
    assert [one.kind for one in detections(*outputs, 1.0, (SIDE_PX, SIDE_PX))] == ["person", "vehicle"]


@given(st.integers(0, 2**32 - 1), st.sampled_from((0.3, 1.0, 4.0)), st.integers(1, 900), st.integers(1, 900))
def test_whatever_a_model_says_boxes_lie_in_the_picture(seed: int, scale: float, height: int, width: int) -> None:
    dice = np.random.default_rng(seed)
    cells = [(SIDE_PX // stride) ** 2 for stride in STRIDES]
    scores = [(dice.random((1, n, CLASSES)) ** 80).astype(np.float32) for n in cells]
    sides = [dice.normal(scale=20, size=(1, n, 4 * BINS)).astype(np.float32) for n in cells]
    for one in detections(scores, sides, scale, (height, width)):
        x, y, w, h = one.box.coordinates
        assert w > 0
        assert h > 0
        assert x + w <= width + 1
        assert y + h <= height + 1
        assert 0 <= one.score <= 1


@pytest.mark.parametrize(("height", "width"), [(576, 768), (768, 576), (1, 2000), (5, 5)])
def test_a_picture_of_any_form_stands_in_the_corner_of_a_grey_square(height: int, width: int) -> None:
    scale = SIDE_PX / max(height, width)
    found = fitted(np.zeros((height, width, 3), np.uint8), scale)
    assert found.shape == (1, 3, SIDE_PX, SIDE_PX)
    black = np.isclose(found[0, 0], -MEAN[0] / 57.375, atol=1e-4)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    assert black[:rows, :columns].all()
    assert np.count_nonzero(black) == rows * columns
    if rows < SIDE_PX:
        assert found[0, 0, -1, -1] == pytest.approx((FILLED - MEAN[0]) / 57.375, abs=1e-4)
