"""Which pixels around a target are the target: a mask from 0 to 1.

In: a picture, the background behind it, the target's box and those of the others. Out: the region
around the box and its mask. Never: a hard edge; a pixel that is rather
another target's.

Three things are multiplied: how much a pixel differs from the background, with the holes filled;
how near it is to this target rather than to another; and a border that runs out beside the box.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.detection.port import Image

Floats = NDArray[np.float32]
Region = tuple[slice, slice]
Rectangle = Sequence[float]

MARGIN, LEAST_MARGIN_PX = 0.18, 4  # around a box, in its size: arms, feet, what a detector missed
OUTER, INNER = (10.0, 28.0), (5.0, 16.0)
"""Differences of colour, 0 to 255, that are nothing and that are the target: beside the box, and in
its middle, where a dark coat before a dark wall is to be kept whole."""
CLOSED = 0.12  # of the box's width: holes of that size belong to it
SOFT_PX = 1.2
RIVALRY = 2.5  # how sharply a pixel between two targets is given to the nearer one


def region_of(box: Rectangle, size: tuple[int, int]) -> Region | None:
    """The part of a picture (width, height) around a box; None where it is outside."""
    x, y, w, h = box
    dx, dy = _margins(w, h)
    left, right = max(0, int(x - dx)), min(size[0], int(x + w + dx) + 1)
    top, bottom = max(0, int(y - dy)), min(size[1], int(y + h + dy) + 1)
    if right - left < 2 or bottom - top < 2:
        return None
    return slice(top, bottom), slice(left, right)


def soft_mask(
    part: Image, behind: Floats, region: Region, box: Rectangle, others: Sequence[Rectangle]
) -> Floats:
    """Of the region's size. `part` and `behind`: the picture and the background there."""
    ys = np.arange(region[0].start, region[0].stop, dtype=np.float32)[:, None] + 0.5
    xs = np.arange(region[1].start, region[1].stop, dtype=np.float32)[None, :] + 0.5
    own = _distance(xs, ys, box)
    mask = _difference(part, behind, own, box) * _border(xs, ys, box)
    for other in others:
        mask *= 1 / (1 + np.exp(RIVALRY * (own - _distance(xs, ys, other)).clip(-20, 20)))
    soft: Floats = mask.astype(np.float32)
    return soft


def exposure(image: Image, behind: Floats) -> Floats:
    """By how much a camera has made the whole picture brighter than its background, per colour: the
    median over a grid, which targets do not bend."""
    seen = image[4::8, 4::8].reshape(-1, 3).astype(np.float32) + 1
    expected = behind[4::8, 4::8].reshape(-1, 3) + 1
    found: Floats = np.median(seen / expected, axis=0).astype(np.float32)
    return found


def _difference(part: Image, behind: Floats, own: Floats, box: Rectangle) -> Floats:
    apart = np.abs(cv2.GaussianBlur(part, (0, 0), 1.0).astype(np.float32) - behind).max(axis=2)
    inner = np.clip(1.6 - 1.2 * own, 0, 1)
    low = OUTER[0] + (INNER[0] - OUTER[0]) * inner
    high = OUTER[1] + (INNER[1] - OUTER[1]) * inner
    sure = np.clip((apart - low) / (high - low), 0, 1)
    reach = max(1, round(box[2] * CLOSED))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    closed = cv2.morphologyEx(sure, cv2.MORPH_CLOSE, kernel)
    soft: Floats = cv2.GaussianBlur(closed, (0, 0), SOFT_PX)
    return soft


def _margins(width: float, height: float) -> tuple[float, float]:
    """Beside a box, and above and below it."""
    return max(LEAST_MARGIN_PX, width * MARGIN), max(LEAST_MARGIN_PX, height * MARGIN)


def _border(xs: Floats, ys: Floats, box: Rectangle) -> Floats:
    """1 in the box, running out over the margin."""
    x, y, w, h = box
    dx, dy = _margins(w, h)
    outside_x = np.maximum(np.maximum(x - xs, xs - x - w), 0) / dx
    outside_y = np.maximum(np.maximum(y - ys, ys - y - h), 0) / dy
    away = np.clip(np.hypot(outside_x, outside_y), 0, 1)
    border: Floats = (0.5 + 0.5 * np.cos(np.pi * away)).astype(np.float32)
    return border


def _distance(xs: Floats, ys: Floats, box: Rectangle) -> Floats:
    """From the middle, 1 at the middles of the box's edges, squared."""
    x, y, w, h = box
    found: Floats = ((xs - x - w / 2) / (w / 2)) ** 2 + ((ys - y - h / 2) / (h / 2)) ** 2
    return found
