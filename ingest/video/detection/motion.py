"""What moves in a film whose camera stands still (MOG2).

In: its pictures, in their order. Out: a mask of what moves now, the boxes of what moves, and how
much of a box does. Never: what it is that moves.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box, Detection
from ingest.video.detection.port import Image, part_of

Mask = NDArray[np.uint8]

LEARNING_LOOKS = 3  # steady looks until the background model knows the empty street
RESTLESS_SHARE = 0.35  # more moving picture than this: the camera moves, not the world
SMALLEST_SHARE = 0.001  # of the picture; smaller blobs are leaves and noise
MOVER_SCORE = 0.6  # sure enough to begin a track, whatever it is
SHADOW = 200  # the model marks shadows with 127
STEADY_WIDTH_PX = 192  # the camera's own movement is measured on a small grey picture
STEADY_CORNERS = 60
STEADY_QUALITY = 0.001  # weak corners of a dull street count too, else one sharp mover
STEADY_SPREAD_PX = 12  # has all the corners; and they are spread over the whole picture
STEADY_SHIFT_PX = 0.5  # of that picture, from look to look; more is a hand or a pan


class Motion:
    """The background of one film, learnt as it goes on. `mask`: None while it is not known."""

    def __init__(self) -> None:
        self._background = _new_background()
        self._kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
        self._steady_looks = 0
        self._last_small: Image | None = None
        self.mask: Mask | None = None

    def observe(self, image: Image) -> None:
        """The next picture."""
        if self._is_steady(image):
            self._steady_looks += 1
        else:
            self._steady_looks, self._background = 0, _new_background()
        found = self._background.apply(image)
        mask = cv2.threshold(found, SHADOW, 255, cv2.THRESH_BINARY)[1]
        moving = cv2.countNonZero(mask) / mask.size
        is_known = self._steady_looks >= LEARNING_LOOKS and moving <= RESTLESS_SHARE
        self.mask = mask if is_known else None

    def movers(self) -> list[Detection]:
        """A box around each thing that moves; none while the background is not known."""
        if self.mask is None:
            return []
        mask = cv2.morphologyEx(self.mask, cv2.MORPH_OPEN, self._kernel)
        mask = cv2.dilate(mask, self._kernel, iterations=2)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask)
        least = SMALLEST_SHARE * mask.size
        boxes = [Box(*map(float, row[:4])) for row in stats[1:] if row[4] >= least]
        return [Detection(box, MOVER_SCORE) for box in boxes]

    def share(self, box: Box) -> float | None:
        """How much of a box moves, 0 to 1; None while the background is not known."""
        if self.mask is None:
            return None
        part = part_of(self.mask, box)
        return cv2.countNonZero(part) / part.size if part.size else 0.0

    def _is_steady(self, image: Image) -> bool:
        """Whether the scene stayed where it was: the median movement of its corners since the last
        look. Movers are the minority and do not bend a median; a cut loses most corners.
        """
        height, width = image.shape[:2]
        size = (STEADY_WIDTH_PX, max(8, round(height * STEADY_WIDTH_PX / width)))
        small = cv2.cvtColor(cv2.resize(image, size), cv2.COLOR_BGR2GRAY)
        last, self._last_small = self._last_small, small
        if last is None:
            return True
        corners = cv2.goodFeaturesToTrack(last, STEADY_CORNERS, STEADY_QUALITY, STEADY_SPREAD_PX)
        if corners is None:
            return True  # nothing to hold on to, as at night
        moved, found, _ = cv2.calcOpticalFlowPyrLK(last, small, corners, None)
        kept = found.ravel() == 1
        if kept.mean() < 0.5:
            return False
        shifts = np.linalg.norm((moved - corners).reshape(-1, 2)[kept], axis=1)
        return bool(np.median(shifts) < STEADY_SHIFT_PX)


def _new_background() -> Any:
    return cv2.createBackgroundSubtractorMOG2(history=200, varThreshold=25, detectShadows=True)
