"""What every detector is, and what it looks at."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box, Detection

Image = NDArray[np.uint8]
"""BGR, height x width x 3."""


def part_of(image: Image, box: Box) -> Image:
    """What of a picture lies in a box; it may be empty."""
    x0, y0 = max(0, int(box.x)), max(0, int(box.y))
    x1, y1 = max(0, int(box.x + box.w) + 1), max(0, int(box.y + box.h) + 1)
    return image[y0:y1, x0:x1]


class Detector(Protocol):
    """Says what is in a picture, whatever was in those before."""

    name: str
    """What records say that they were recognised by."""

    def find(self, image: Image) -> list[Detection]:
        """The boxes of the targets in it, in pixels of the picture."""
