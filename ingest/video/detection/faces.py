"""Faces that look at the camera and are large enough to be recognised (Haar). Needs OpenCV 4: 5 has
no cascades.

In: a picture. Out: boxes with a score. Never: whose face it is.
"""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np

from ingest.video.boxes import Box, Detection
from ingest.video.detection.port import Image

CASCADE = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"


class FaceDetector:
    """A cascade, as it comes with OpenCV. Faces of fewer pixels than `smallest_px` are left out."""

    def __init__(self, smallest_px: int) -> None:
        self._smallest_px = smallest_px
        self._faces = cv2.CascadeClassifier(str(CASCADE))

    def find(self, image: Image) -> list[Detection]:
        """Their boxes: all are sure enough to begin a track, more so those of a high weight."""
        grey = cv2.equalizeHist(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))
        smallest = (self._smallest_px, self._smallest_px)
        boxes, _, weights = self._faces.detectMultiScale3(
            grey, scaleFactor=1.15, minNeighbors=6, minSize=smallest, outputRejectLevels=True
        )
        return [
            Detection(Box(*map(float, box)), round(_score(float(weight)), 3), "face")
            for box, weight in zip(boxes, np.ravel(weights), strict=True)
        ]


def _score(weight: float) -> float:
    """0.6 to 1."""
    return 0.6 + 0.4 / (1 + math.exp(-weight / 4))
