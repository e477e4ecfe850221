"""A box in which nothing moves counts half; colours tell targets apart."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from ingest.video.boxes import Box, Detection
from ingest.video.detection.colours import colours_of
from ingest.video.detection.motion import LEARNING_LOOKS
from ingest.video.detection.port import Image
from ingest.video.detection.targets import TargetDetector

CONE, WALKER = Box(10, 10, 20, 30), Box(60, 20, 20, 50)


class EverythingIsAPerson:
    """Says of each picture what a model says of a street with a cone."""

    name = "everything"

    def find(self, image: Image) -> list[Detection]:
        return [Detection(CONE, 0.8, "person"), Detection(WALKER, 0.8, "person")]


def street(step: int) -> Image:
    """Where the walker is, something else is seen at each step."""
    picture = np.full((100, 160, 3), 120, np.uint8)
    picture[:, ::9] = 90
    cv2.rectangle(picture, (10, 10), (30, 40), (0, 80, 250), -1)
    cv2.rectangle(picture, (60, 20), (80, 70), (250 * (step % 2), 30, 250 * (1 - step % 2)), -1)
    return picture


def test_what_never_moves_counts_half_once_the_street_is_known() -> None:
    detector = TargetDetector(EverythingIsAPerson())
    scores = [
        tuple(one.detection.score for one in detector.find(street(max(0, step - 12)))) for step in range(14)
    ]  # fmt: skip
    not_known = LEARNING_LOOKS - 1
    assert scores[:not_known] == [(0.8, 0.8)] * not_known
    cone, walker = scores[-1]
    assert cone == pytest.approx(0.4)
    assert walker == 0.8


def test_without_a_model_what_moves_is_found_and_nothing_is_said_of_it() -> None:
    detector = TargetDetector(None)
    found = [detector.find(street(max(0, step - 12))) for step in range(14)]
    assert found[10] == []
    [[one]] = [found[-1]]
    assert one.detection.kind == "thing"
    assert one.detection.box.overlap(WALKER) > 0.5


def test_the_same_colours_are_alike_and_others_are_not() -> None:
    picture = np.zeros((60, 90, 3), np.uint8)
    for column, (upper, lower) in enumerate((((0, 0, 200), (200, 0, 0)), ((0, 0, 200), (200, 0, 0)), ((200, 0, 0), (0, 0, 200)))):
        cv2.rectangle(picture, (30 * column, 0), (30 * column + 29, 29), upper, -1)
        cv2.rectangle(picture, (30 * column, 30), (30 * column + 29, 59), lower, -1)
    one, same, turned = (colours_of(picture, Box(30 * n, 0, 29, 59)) for n in range(3))
    assert one is not None
    assert same is not None
    assert turned is not None
    assert one @ one == pytest.approx(1, abs=1e-3)
    assert one @ same == pytest.approx(1, abs=0.02)
    assert one @ turned < 0.6  # as bright, but red above blue is not blue above red


@pytest.mark.parametrize("box", [Box(200, 0, 20, 20), Box(0, 0, 10, 0.2), Box(-50, -50, 20, 20)])
def test_of_a_box_without_a_picture_there_are_no_colours(box: Box) -> None:
    assert colours_of(np.zeros((60, 90, 3), np.uint8), box) is None
