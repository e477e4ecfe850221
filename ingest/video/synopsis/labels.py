"""Where the labels of targets stand, and what is written there. Pure.

In: boxes of the targets of one frame, where labels stood before. Out: a place per label, or None
where there is no room. Never: a label that lies on a target or on another label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box

Floats = NDArray[np.float64]

RINGS = 4  # of places around a target, each a label's height further away


class LabelOffset(NamedTuple):
    """Of a label's upper left corner from the middle of its target's upper edge, in pixels."""

    dx: int
    dy: int


def label_text(at_ms: float, fps: float, begun_ms: int | None = None) -> str:
    """The time of a frame since the film's beginning, or of the day (milliseconds since midnight at
    the beginning), with as many digits as tell one frame from the next."""
    digits = max(0, math.ceil(math.log10(max(1.0, fps)) - 1e-9))
    units = math.floor((at_ms + (begun_ms or 0)) * 10**digits / 1000 + 1e-6)
    seconds, rest = divmod(units, 10**digits)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    if begun_ms is not None:
        text = f"{hours % 24:02}:{minute:02}:{second:02}"
    else:
        text = f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
    return f"{text}.{rest:0{digits}}" if digits else text


def place_labels(
    targets: Mapping[int, Box], sizes: Mapping[int, tuple[int, int]],
    before: Mapping[int, LabelOffset], picture: tuple[int, int],
) -> dict[int, LabelOffset]:  # fmt: skip
    """Per target that has room for it. `sizes`: width and height of each label; where a label stood
    relative to its target is kept while it can be; those that stand have the first choice."""
    boxes = np.array([box.coordinates for box in targets.values()]).reshape(-1, 4)
    taken = boxes.copy()
    found: dict[int, LabelOffset] = {}
    for key in sorted(targets, key=lambda key: (key not in before, key)):
        offsets = _candidates(targets[key], sizes[key])
        if key in before:
            offsets = [before[key], *offsets]
        labels = np.array([_placed(targets[key], offset, sizes[key]) for offset in offsets])
        free = np.flatnonzero(_within(labels, picture) & ~_overlaps(labels, taken))
        if free.size:
            found[key] = offsets[int(free[0])]
            taken = np.vstack([taken, labels[free[0]]])
    return found


def label_box(target: Box, offset: LabelOffset, size: tuple[int, int]) -> Box:
    """Where it is drawn."""
    return Box(*(float(one) for one in _placed(target, offset, size)))


def _placed(
    target: Box, offset: LabelOffset, size: tuple[int, int]
) -> tuple[int, int, int, int]:
    x, y = round(target.x + target.w / 2) + offset.dx, round(target.y) + offset.dy
    return x, y, *size


def _candidates(target: Box, size: tuple[int, int]) -> list[LabelOffset]:
    """Above, below, beside; then the same further away."""
    width, height = size
    half = math.ceil(target.w / 2)
    tall = math.ceil(target.h)
    found = []
    for ring in range(RINGS):
        away = 2 + ring * height
        above, below = -height - away, tall + away
        right, left = half + away, -half - away - width
        middle = -width // 2
        found += [
            LabelOffset(middle, above), LabelOffset(middle, below),
            LabelOffset(right, 0), LabelOffset(left, 0),
            LabelOffset(0, above), LabelOffset(-width, above),
            LabelOffset(0, below), LabelOffset(-width, below),
            LabelOffset(right, tall - height), LabelOffset(left, tall - height),
            LabelOffset(right, tall // 2), LabelOffset(left, tall // 2),
        ]  # fmt: skip
    return found


def _within(labels: Floats, picture: tuple[int, int]) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (
        (labels[:, 0] >= 0) & (labels[:, 1] >= 0)
        & (labels[:, 0] + labels[:, 2] <= picture[0]) & (labels[:, 1] + labels[:, 3] <= picture[1])
    )  # fmt: skip
    return inside


def _overlaps(labels: Floats, taken: Floats) -> NDArray[np.bool_]:
    begins = np.maximum(labels[:, None, :2], taken[None, :, :2])
    ends = np.minimum(
        labels[:, None, :2] + labels[:, None, 2:], taken[None, :, :2] + taken[None, :, 2:]
    )
    both: NDArray[np.bool_] = np.all(ends > begins, axis=2)
    overlap: NDArray[np.bool_] = np.any(both, axis=1)
    return overlap


