"""OpenCV finds people (HOG), movers (MOG2) and faces (Haar) in one image (BGR, uint8, height x
width x 3). Needs OpenCV 4: from 5 on there are neither cascades nor HOG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.settings import VideoSettings
from ingest.video.tracks import Box, Detection, without_covered

Image = NDArray[np.uint8]

FACE_CASCADE = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"
HOG_BORDER = 0.12  # the people detector was trained on people with air around them
SAME_PERSON = 0.45  # overlap of two boxes that are one person found twice
LEARNING_LOOKS = 3  # steady looks until the background model knows the empty street
STEADY_WIDTH_PX = 192  # the camera's own movement is measured on a small grey picture
STEADY_CORNERS = 60
STEADY_QUALITY = 0.001  # weak corners of a dull street count too, else one sharp mover
STEADY_SPREAD_PX = 12  # has all the corners; and they are spread over the whole picture
STEADY_SHIFT_PX = 0.5  # of that picture, from look to look; more is a hand or a pan


class Detectors:
    """Holds the models of one film; the background model learns as the film goes on."""

    def __init__(self, settings: VideoSettings) -> None:
        self._settings = settings
        self._steady_looks = 0
        self._last_small: Image | None = None
        self._people = cv2.HOGDescriptor()
        self._people.setSVMDetector(cv2.HOGDescriptor.getDefaultPeopleDetector())
        self._background = _new_background()
        self._faces = cv2.CascadeClassifier(str(FACE_CASCADE))
        self._kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))

    def targets(self, frame: Image) -> list[Detection]:
        """People, and movers that are not those people."""
        people = self._find_people(frame)
        movers = self._find_movers(frame)
        return [*people, *without_covered(movers, people)]

    def faces(self, frame: Image) -> list[Detection]:
        """Faces that look at the camera and are large enough to be recognised."""
        grey = cv2.equalizeHist(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY))
        smallest = self._settings.smallest_face_px
        boxes, _, weights = self._faces.detectMultiScale3(
            grey, scaleFactor=1.15, minNeighbors=6, minSize=(smallest, smallest),
            outputRejectLevels=True,
        )  # fmt: skip
        return [
            Detection(_box(box), round(_logistic(float(weight) / 4), 3))
            for box, weight in zip(boxes, np.ravel(weights), strict=True)
        ]

    def _find_people(self, frame: Image) -> list[Detection]:
        boxes, weights = self._people.detectMultiScale(
            frame, winStride=(8, 8), padding=(8, 8), scale=1.1
        )
        found = [
            Detection(_tightened(box), round(_logistic(float(weight)), 3), person=True)
            for box, weight in zip(boxes, np.ravel(weights), strict=True)
            if weight > self._settings.person_score
        ]
        return _strongest(found)

    def _find_movers(self, frame: Image) -> list[Detection]:
        if self._is_steady(frame):
            self._steady_looks += 1
        else:
            self._steady_looks, self._background = 0, _new_background()
        mask = self._background.apply(frame)
        mask = cv2.threshold(mask, 200, 255, cv2.THRESH_BINARY)[1]  # shadows are grey
        moving_share = cv2.countNonZero(mask) / mask.size
        if self._steady_looks < LEARNING_LOOKS or moving_share > self._settings.restless_share:
            return []
        mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, self._kernel)
        mask = cv2.dilate(mask, self._kernel, iterations=2)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask)
        least = self._settings.smallest_mover_share * mask.size
        return [Detection(_box(row[:4])) for row in stats[1:] if row[4] >= least]

    def _is_steady(self, frame: Image) -> bool:
        """Whether the scene stayed where it was: the median movement of its corners since the last
        look. Movers are the minority and do not bend a median; a cut loses most corners.
        """
        height, width = frame.shape[:2]
        size = (STEADY_WIDTH_PX, max(8, round(height * STEADY_WIDTH_PX / width)))
        small = cv2.cvtColor(cv2.resize(frame, size), cv2.COLOR_BGR2GRAY)
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


def _strongest(found: list[Detection]) -> list[Detection]:
    """Of boxes that are one person found twice, the surest."""
    kept: list[Detection] = []
    for detection in sorted(found, key=lambda d: -d.score):
        if all(detection.box.overlap(other.box) < SAME_PERSON for other in kept):
            kept.append(detection)
    return kept


def _box(values: Any) -> Box:
    x, y, w, h = (float(value) for value in values)
    return Box(x, y, w, h)


def _tightened(values: Any) -> Box:
    x, y, w, h = (float(value) for value in values)
    dx, dy = w * HOG_BORDER, h * HOG_BORDER / 2
    return Box(x + dx, y + dy, w - 2 * dx, h - 2 * dy)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
