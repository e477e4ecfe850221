"""What colours a target has: what is compared when it comes out from behind another.

In: a picture, a box. Out: a vector of unit length, of which the inner product of two is how alike
they are (the Bhattacharyya coefficient, averaged over both halves).
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box
from ingest.video.detection.port import Image, part_of

Colours = NDArray[np.float32]

HUES, SATURATIONS, VALUES = 8, 4, 8
INNER = 0.15  # of the width at each side: the street beside a person
_WHOLE = [0, 180, 0, 256]


def colours_of(image: Image, box: Box) -> Colours | None:
    """Of the upper and the lower half apart; None where the box holds no picture."""
    inner = Box(box.x + box.w * INNER, box.y, box.w * (1 - 2 * INNER), box.h)
    part = part_of(image, inner)
    if part.shape[0] < 2 or not part.shape[1]:
        return None
    pixels = cv2.cvtColor(part, cv2.COLOR_BGR2HSV)
    middle = pixels.shape[0] // 2
    halves = [_histogram(pixels[:middle]), _histogram(pixels[middle:])]
    found: Colours = np.sqrt(np.concatenate(halves) / 4)
    return found


def _histogram(pixels: Image) -> Colours:
    """Hue with saturation, and value: each sums up to 1."""
    tones = cv2.calcHist([pixels], [0, 1], None, [HUES, SATURATIONS], _WHOLE).ravel()
    values = cv2.calcHist([pixels], [2], None, [VALUES], [0, 256]).ravel()
    count = pixels.shape[0] * pixels.shape[1]
    found: Colours = np.concatenate([tones, values]) / count
    return found
