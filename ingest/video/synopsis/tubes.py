"""Tubes: one target through the frames of a film. Pure.

In: where targets were seen, at some frames. Out: tubes, which have a box for every frame; the
frames of them that are shown; pieces that fit into a synopsis. Never: pictures.

A tube is what video synopsis calls the space-time volume of a moving object (Pritch, Rav-Acha,
Peleg: "Nonchronological video synopsis and indexing", TPAMI 2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box, TargetClass

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LONGEST_GAP_S = 2.0  # who was hidden for longer may have gone another way: another tube
SMOOTHED_FRAMES = 5  # a detector's boxes tremble; masks would tremble with them
STILL_HEIGHTS_PER_S = 0.1  # slower than this a target stands
STILL_KEPT_S = 1.0  # of standing, before it is shown quicker
STILL_SPEED = 8


@dataclass(frozen=True, slots=True)
class TubePoint:
    """Where a target was in one frame; pixels of the film."""

    frame: int
    box: Box
    kind: TargetClass = "thing"


@dataclass(frozen=True, slots=True, eq=False)
class Tube:
    """Invariant: `frames` (n, of the film) grow and are not empty; `boxes` (n x 4: x, y, width,
    height in pixels) are where the target was then. `colours`: names, known late."""

    track: int
    kind: TargetClass
    frames: Integers
    boxes: Floats
    colours: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def first(self) -> int:
        """The frame in which it begins."""
        return int(self.frames[0])

    @property
    def last(self) -> int:
        """The frame in which it ends."""
        return int(self.frames[-1])

    @property
    def area(self) -> float:
        """Square pixels of a box, on average."""
        return float(np.mean(self.boxes[:, 2] * self.boxes[:, 3]))

    def part(self, begin: int, end: int) -> Tube:
        """Those of its frames by position, `end` exclusive."""
        return replace(self, frames=self.frames[begin:end], boxes=self.boxes[begin:end])

    def scaled(self, factor: float) -> Tube:
        """In pixels of a picture that is so many times as large."""
        return replace(self, boxes=self.boxes * factor)


def dense_tubes(track: int, points: Sequence[TubePoint], fps: float) -> list[Tube]:
    """The tubes of one track: one, or several where it was hidden for long. `points` by frame;
    between two of them the box moves evenly. Raises ValueError where frames do not grow."""
    frames = np.array([one.frame for one in points], np.int64)
    if len(frames) == 0 or np.any(np.diff(frames) <= 0):
        raise ValueError(f"track {track}: frames must grow")
    boxes = np.array([one.box.coordinates for one in points], np.float64)
    breaks = np.flatnonzero(np.diff(frames) > max(1.0, LONGEST_GAP_S * fps)) + 1
    kind = _most_frequent(points)
    return [
        _interpolated(track, kind, some_frames, some_boxes)
        for some_frames, some_boxes in zip(
            np.split(frames, breaks), np.split(boxes, breaks), strict=True
        )
    ]


def condensed(tube: Tube, fps: float, speed: int) -> Tube:
    """The frames of it that are shown: every `speed`-th, and of a time of standing after its first
    second one in eight of those. Beginning and end are shown."""
    still = _standing(tube, fps)
    kept, position, stood = [], 0, 0.0
    while position < len(tube):
        kept.append(position)
        stood = stood + speed / fps if still[position] else 0.0
        position += speed * (STILL_SPEED if stood > STILL_KEPT_S else 1)
    if kept[-1] != len(tube) - 1:
        kept.append(len(tube) - 1)
    chosen = np.array(kept)
    return replace(tube, frames=tube.frames[chosen], boxes=tube.boxes[chosen])


def pieces(tube: Tube, longest: int) -> list[Tube]:
    """As few parts of about the same length as are each at most `longest` frames; they are shown
    at once, at different places of the target's way."""
    count = -(-len(tube) // max(1, longest))
    ends = [round(len(tube) * number / count) for number in range(count + 1)]
    return [tube.part(begin, end) for begin, end in pairwise(ends)]


def length_for(tubes: Iterable[Tube], density: float, picture_px: float) -> int:
    """Frames of a synopsis in which the targets cover that share of the picture on average."""
    covered = sum(float(np.sum(one.boxes[:, 2] * one.boxes[:, 3])) for one in tubes)
    return max(1, round(covered / (density * picture_px)))


def _interpolated(track: int, kind: TargetClass, frames: Integers, boxes: Floats) -> Tube:
    every = np.arange(frames[0], frames[-1] + 1)
    columns = [_smoothed(np.interp(every, frames, boxes[:, column])) for column in range(4)]
    return Tube(track, kind, every, np.stack(columns, axis=1))


def _smoothed(values: Floats) -> Floats:
    """The mean of as many values on both sides; less at the ends."""
    half = min(SMOOTHED_FRAMES // 2, (len(values) - 1) // 2)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    reach = np.minimum(np.minimum(at, at[::-1]), half)
    smooth: Floats = (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1)
    return smooth


def _standing(tube: Tube, fps: float) -> NDArray[np.bool_]:
    """Per frame: whether the middle of its foot moved less than a tenth of its height in the second
    around it."""
    half = max(1, round(fps / 2))
    feet = np.stack(
        [tube.boxes[:, 0] + tube.boxes[:, 2] / 2, tube.boxes[:, 1] + tube.boxes[:, 3]], axis=1
    )
    at = np.arange(len(tube))
    before, after = np.maximum(at - half, 0), np.minimum(at + half, len(tube) - 1)
    moved = np.linalg.norm(feet[after] - feet[before], axis=1)
    seconds = np.maximum(1, after - before) / fps
    still: NDArray[np.bool_] = moved / seconds < STILL_HEIGHTS_PER_S * tube.boxes[:, 3]
    return still


def _most_frequent(points: Sequence[TubePoint]) -> TargetClass:
    counts: dict[TargetClass, int] = {}
    for one in points:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    return max(counts, key=lambda kind: counts[kind])
