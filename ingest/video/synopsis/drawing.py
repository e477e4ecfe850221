"""One picture of a synopsis: targets of several times on the background of one, and their labels.

In: a background, cut-out targets in the order in which they are drawn, labels and their places.
Out: a picture. Never: an edge where a target's own background differs from what it is drawn on: it
is made as bright as that first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box
from ingest.video.detection.port import Image
from ingest.video.synopsis.patch_file import Patch

Floats = NDArray[np.float32]

FONT, FONT_SCALE, LINE_PX, PADDING_PX = cv2.FONT_HERSHEY_SIMPLEX, 0.36, 1, 2
GROUND_SHARE = 0.35  # of the picture that is seen through a label
DARKEST, BRIGHTEST = 0.5, 2.0  # a gain beyond these is no light


NO_DIFFERENCE, SURE_DIFFERENCE = 8.0, 20.0  # of colours, 0 to 255: what is street, what is not
_HOLES = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7))  # in a coat of the street's colour


class PlacedLabel(NamedTuple):
    """What is written where, beside which target (pixels). `colour`: BGR."""

    text: str
    box: Box
    target: Box
    colour: tuple[int, int, int]


def blend(picture: Floats, ground: Floats, patch: Patch, weight: float) -> None:
    """Draw a target into the picture. `ground`: the background without targets; `weight`: how much
    of the target is seen, 0 to 1.

    A soft edge holds some of the street. On the street nobody sees that; on another target it would
    be a halo, so that there only what differs from the street is drawn."""
    height, width = patch.mask.shape
    region = (slice(patch.top, patch.top + height), slice(patch.left, patch.left + width))
    there, street = picture[region], ground[region]
    target = patch.image.astype(np.float32)
    taken = np.clip(_apart(there, street) / SURE_DIFFERENCE, 0, 1)
    own = np.clip((_apart(target, street) - NO_DIFFERENCE) / SURE_DIFFERENCE, 0, 1)
    own = cv2.morphologyEx(own, cv2.MORPH_CLOSE, _HOLES)
    share = patch.mask * np.float32(weight) * (1 - taken * (1 - own))
    there += share[:, :, None] * (target - there)


def lit(patch: Patch, ground: Floats) -> Patch:
    """The target as it would be in the light of another moment. `ground`: the background that it is
    drawn on, of the patch's size."""
    gain = (ground.mean(axis=(0, 1)) + 1) / (np.array(patch.behind, np.float32) + 1)
    gain = np.clip(gain, DARKEST, BRIGHTEST)
    image = np.clip(patch.image.astype(np.float32) * gain, 0, 255).astype(np.uint8)
    return patch._replace(image=image)


def label_size(text: str) -> tuple[int, int]:
    """Width and height of a label, in pixels."""
    (width, height), below = cv2.getTextSize(text, FONT, FONT_SCALE, LINE_PX)
    return width + 2 * PADDING_PX, height + below + PADDING_PX


def draw_labels(picture: Image, labels: Sequence[PlacedLabel]) -> None:
    """Each with a line to its target, where it does not stand at it."""
    for one in labels:
        _draw_line(picture, one)
    for one in labels:
        x, y = int(one.box.x), int(one.box.y)
        ground = picture[y : y + int(one.box.h), x : x + int(one.box.w)]
        ground[:] = (ground * GROUND_SHARE).astype(np.uint8)
        _, below = cv2.getTextSize(one.text, FONT, FONT_SCALE, LINE_PX)
        at = (x + PADDING_PX, y + int(one.box.h) - below)
        cv2.putText(picture, one.text, at, FONT, FONT_SCALE, one.colour, LINE_PX, cv2.LINE_AA)


def track_colour(track: int) -> tuple[int, int, int]:
    """A light colour, as different as can be from that of the tracks before and after."""
    hue = int(track * 0.618034 * 180) % 180
    pixel = np.array([[[hue, 90, 255]]], np.uint8)
    blue, green, red = cv2.cvtColor(pixel, cv2.COLOR_HSV2BGR)[0, 0]
    return int(blue), int(green), int(red)


def _apart(one: Floats, other: Floats) -> Floats:
    apart: Floats = np.abs(one - other).max(axis=2)
    return apart


def _draw_line(picture: Image, one: PlacedLabel) -> None:
    begin, end = _nearest(one.box, one.target), _nearest(one.target, one.box)
    if abs(begin[0] - end[0]) + abs(begin[1] - end[1]) > one.box.h:
        cv2.line(picture, begin, end, one.colour, 1, cv2.LINE_AA)


def _nearest(box: Box, other: Box) -> tuple[int, int]:
    """The point of a box that is nearest to another's middle."""
    x, y = other.centre
    return round(min(max(x, box.x), box.x + box.w)), round(min(max(y, box.y), box.y + box.h))
