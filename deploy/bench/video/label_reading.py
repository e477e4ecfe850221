"""Reads the label of a target from the pixels of a synopsis.

In: a picture of the decoded film, the map's entry of the target. Out: by how many frames the time
that is written there differs from that of the frame that the map names. Never: the map's own word
for what is written: labels of the frames around it are drawn again and compared with the pixels.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box
from ingest.video.synopsis.drawing import PlacedLabel, draw_labels, track_colour
from ingest.video.synopsis.labels import label_text
from ingest.video.synopsis.synopsis_map import MappedTarget

AROUND = 5  # frames before and after


def frames_off(picture: NDArray[np.uint8], target: MappedTarget, fps: float) -> int:
    """0: the right time. The target has a label, and times count evenly from the film's beginning.
    """
    assert target.label is not None
    x, y, w, h = target.label
    there = picture[y : y + h, x : x + w].max(axis=2).astype(np.float64)
    likeness: dict[int, float] = {
        off: _likeness(there, target, off, fps)
        for off in range(-AROUND, AROUND + 1) if target.source_frame + off >= 0
    }  # fmt: skip
    likest: int = max(likeness, key=lambda off: likeness[off])
    return abs(likest)


def _likeness(there: NDArray[np.float64], target: MappedTarget, off: int, fps: float) -> float:
    height, width = there.shape
    drawn = np.zeros((height, width, 3), np.uint8)
    box = Box(0, 0, width, height)
    text = label_text((target.source_frame + off) * 1000 / fps, fps)
    draw_labels(drawn, [PlacedLabel(text, box, box, track_colour(target.track))])
    return float(np.corrcoef(drawn.max(axis=2).ravel(), there.ravel())[0, 1])


def pictures_of(path: str) -> list[NDArray[np.uint8]]:
    """All pictures of a short film."""
    capture, found = cv2.VideoCapture(path), list[NDArray[np.uint8]]()
    while True:
        done, picture = capture.read()
        if not done:
            return found
        found.append(np.asarray(picture, np.uint8))
