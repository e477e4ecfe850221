"""Reads every frame of a film with its true time, and refuses what is no film.

In: a path. Out: frames in their order, at most so wide; their times. Never: a film whose times
cannot be relied on, or that ends before its end: labels would lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cv2

from ingest.video.detection.port import Image
from ingest.video.video_reader import FALLBACK_FPS, NotAVideo, video_identity

MOST_PIXELS = 8192 * 4320
LACKING_SHARE = 0.02  # of the frames that a container counts: some count more than they have
NOISE_MS = 0.5  # containers round times


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """`number` from 0; `at_ms` since the first frame."""

    number: int
    at_ms: float
    image: Image


@dataclass(slots=True)
class SourceFilm:
    """A film that may be read several times from its beginning. `times_ms` are known after one
    reading. Raises `NotAVideo` at opening and while it is read."""

    path: Path
    width_px: int
    fps: float = field(init=False)
    frame_count: int = field(init=False)
    size: tuple[int, int] = field(init=False)
    scale: float = field(init=False)
    identity: str = field(init=False)
    times_ms: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        capture = self._open()
        try:
            width = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH))
            height = int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
            rate = float(capture.get(cv2.CAP_PROP_FPS))
            self.frame_count = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        finally:
            capture.release()
        if width < 1 or height < 1 or width * height > MOST_PIXELS:
            raise NotAVideo(f"{self.path}: a picture of {width} x {height} pixels")
        self.fps = rate if 0.1 <= rate <= 1000 else FALLBACK_FPS
        self.scale = min(1.0, self.width_px / width)
        # encoders halve the colours' resolution: only even sizes have a meaning there
        even = (max(2, round(side * self.scale) // 2 * 2) for side in (width, height))
        self.size = (next(even), next(even))
        self.identity = video_identity(self.path)

    def frames(self) -> Iterator[SourceFrame]:
        """All of them."""
        times, first = list[float](), 0.0
        capture = self._open()
        try:
            while capture.grab():
                told_ms = float(capture.get(cv2.CAP_PROP_POS_MSEC))
                first = told_ms if not times else first
                at_ms = self._checked_time(times, told_ms - first)
                done, image = capture.retrieve()
                if not done or image is None or image.ndim != 3:
                    raise NotAVideo(f"{self.path}: frame {len(times)} cannot be decoded")
                times.append(at_ms)
                yield SourceFrame(len(times) - 1, at_ms, self._fitted(image))
        finally:
            capture.release()
        self._check_end(len(times))
        self.times_ms = times

    def _checked_time(self, times: list[float], at_ms: float) -> float:
        if times and at_ms < times[-1] - NOISE_MS:
            raise NotAVideo(
                f"{self.path}: time jumps back at frame {len(times)}: {at_ms:.0f} ms after"
                f" {times[-1]:.0f} ms"
            )
        return max(0.0, at_ms)

    def _check_end(self, count: int) -> None:
        if count == 0:
            raise NotAVideo(f"{self.path} has no frame that can be decoded")
        if count < self.frame_count * (1 - LACKING_SHARE) - 1:
            raise NotAVideo(
                f"{self.path} ends after {count} of {self.frame_count} frames: it is truncated"
            )
        self.frame_count = count

    def _fitted(self, image: Image) -> Image:
        if (image.shape[1], image.shape[0]) == self.size:
            return image
        fitted: Image = cv2.resize(image, self.size, interpolation=cv2.INTER_AREA)
        return fitted

    def _open(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self.path)) if self.path.is_file() else None
        if capture is None or not capture.isOpened():
            raise NotAVideo(f"{self.path} is not a film that OpenCV can read")
        return capture
