"""The colours that a target has, by the names of the ten that China's police use (GA 24.8).

In: pixels and how much each is the target's. Out: shares per name. Never: a colour of the street.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.detection.port import Image

ColourName = Literal[
    "white", "grey", "black", "red", "pink", "brown", "yellow", "green", "blue", "purple"
]
NAMES: tuple[ColourName, ...] = get_args(ColourName)
LEAST_SHARE = 0.15  # of a target's pixels
SURE = 0.7  # of the mask; edges have the street in them
DARK, LIGHT, PALE = 60, 170, 45  # value, value and saturation, 0 to 255
_HUES = ((10, "red"), (20, "brown"), (35, "yellow"), (85, "green"), (130, "blue"), (155, "purple"),
         (172, "pink"), (181, "red"))  # fmt: skip
"""OpenCV's hues, 0 to 180, up to which each name goes; a bright brown is yellow."""
_BY_HUE = np.array(
    [NAMES.index(next(name for end, name in _HUES if hue < end)) for hue in range(181)]
)

Counts = NDArray[np.int64]


def colour_counts(part: Image, mask: NDArray[np.float32]) -> Counts:
    """Pixels per name, in the order of `NAMES`."""
    hue, saturation, value = (
        one[mask >= SURE].astype(np.int64)
        for one in cv2.split(cv2.cvtColor(part, cv2.COLOR_BGR2HSV))
    )
    found = _BY_HUE[hue]
    brown, yellow = NAMES.index("brown"), NAMES.index("yellow")
    found = np.where((found == brown) & (value > LIGHT), yellow, found)
    pale = saturation < PALE
    found = np.where(pale & (value > LIGHT), NAMES.index("white"), found)
    found = np.where(pale & (value <= LIGHT), NAMES.index("grey"), found)
    found = np.where(value < DARK, NAMES.index("black"), found)
    return np.bincount(found, minlength=len(NAMES))


def colours_of_counts(counts: Sequence[int] | Counts) -> frozenset[str]:
    """The names that a target has enough of."""
    total = max(1, int(sum(counts)))
    return frozenset(
        name for name, count in zip(NAMES, counts, strict=True) if count / total >= LEAST_SHARE
    )
