"""NanoDet: people and vehicles of COCO in one picture.

In: a picture (BGR, uint8, height x width x 3). Out: boxes with a class and a score. Never: a
model's file; whoever makes one hands over its bytes (`ingest.video.models`).

Source: NanoDet (https://github.com/RangiLyu/nanodet, Apache-2.0): the generalised focal loss's
distributions of distances. The picture is fitted into a square and filled up with grey; each cell
of three grids says, from its centre, how sure it is of each class and how far the four sides are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box, Detection, TargetClass
from ingest.video.detection.port import Image
from ingest.video.detection.suppression import strongest

Floats = NDArray[np.float32]

SIDE_PX = 416
FILLED = 114  # the grey beside the picture
STRIDES = (8, 16, 32)
BINS = 11
"""A distance of a side is a distribution over 0 … 10 strides."""
MEAN = np.array((103.53, 116.28, 123.675), np.float32)
DEVIATION = np.array((57.375, 57.12, 58.395), np.float32)
LEAST_SCORE = 0.2  # what is less sure is no use, not even where a target was expected
OVERLAP = 0.6  # of two boxes of one class that are one target
CLASSES: dict[int, TargetClass] = {
    0: "person", 1: "vehicle", 2: "vehicle", 3: "vehicle", 5: "vehicle", 7: "vehicle",
}  # fmt: skip
"""Of COCO's eighty: person; bicycle, car, motorcycle, bus, truck."""
_COLUMNS: dict[TargetClass, list[int]] = {
    name: [column for column, one in CLASSES.items() if one == name] for name in CLASSES.values()
}


class NanodetDetector:
    """A model that has been loaded. One thread: several films are searched beside each other."""

    name = "nanodet"

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name
        self._outputs = _in_order(self._session.get_outputs())

    def find(self, image: Image) -> list[Detection]:
        """Boxes in pixels of the picture, the surest first."""
        scale = SIDE_PX / max(image.shape[:2])
        found = self._session.run(self._outputs, {self._input: fitted(image, scale)})
        sides = len(STRIDES)
        return detections(found[:sides], found[sides:], scale, image.shape[:2])


def fitted(image: Image, scale: float) -> Floats:
    """The picture at its place in the square, normalised: 1 x 3 x 416 x 416."""
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    square = np.full((SIDE_PX, SIDE_PX, 3), FILLED, np.uint8)
    square[:height, :width] = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    normalised = (square.astype(np.float32) - MEAN) / DEVIATION
    return np.ascontiguousarray(normalised.transpose(2, 0, 1)[None])


def detections(
    scores: Sequence[Floats], distances: Sequence[Floats], scale: float, size: tuple[int, ...]
) -> list[Detection]:
    """Of a model's outputs, per stride: n x 80 probabilities, n x 44 of the sides. `size`: height
    and width of the picture."""
    found: list[Detection] = []
    for stride, of_cells, of_sides in zip(STRIDES, scores, distances, strict=True):
        cells = of_cells.reshape(-1, of_cells.shape[-1])
        sides = of_sides.reshape(-1, 4 * BINS)
        for name, columns in _COLUMNS.items():
            score = cells[:, columns].max(axis=1)
            for cell in np.flatnonzero(score >= LEAST_SCORE):
                box = _box(int(cell), sides[cell], stride, scale, size)
                found.append(Detection(box, round(float(score[cell]), 3), name))
    return strongest(found, OVERLAP)


def _box(cell: int, sides: Floats, stride: int, scale: float, size: tuple[int, ...]) -> Box:
    across = SIDE_PX // stride
    x, y = (cell % across + 0.5) * stride, (cell // across + 0.5) * stride
    powers = np.exp(sides.reshape(4, BINS) - sides.max())
    expected = powers @ np.arange(BINS) / powers.sum(axis=1) * stride
    left, top, right, bottom = (float(one) for one in expected)
    height, width = size
    x0, x1 = (_within((x + side) / scale, width) for side in (-left, right))
    y0, y1 = (_within((y + side) / scale, height) for side in (-top, bottom))
    return Box(x0, y0, max(1.0, x1 - x0), max(1.0, y1 - y0))


def _within(at: float, size: int) -> float:
    """A cell of the grey beside the picture may say something, too."""
    return min(max(0.0, at), float(size))


def _in_order(outputs: Sequence[Any]) -> list[str]:
    """Classes and then sides, each by stride: told apart by their shapes."""
    by_shape = sorted(outputs, key=lambda one: (one.shape[-1] == 4 * BINS, -one.shape[-2]))
    return [one.name for one in by_shape]
