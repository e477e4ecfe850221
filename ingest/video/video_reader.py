"""Reads the frames of a film with their times, at the rate at which they are searched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2

from ingest.video.detection.port import Image
from ingest.video.parts import FrameRange

EVERY_FRAME = FrameRange()
FALLBACK_FPS = 25.0  # some containers do not say
HASHED_BYTES = 1024 * 1024  # of each end; a film of many gigabytes is known by its ends and length


class NotAVideo(Exception):
    """OpenCV cannot read this file as a film."""


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """One frame that shall be looked at; `at_ms` since the film's beginning."""

    frame_number: int
    at_ms: int
    image: Image


class VideoReader:
    """Times are computed from frame number and rate, so that they are the same every time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._capture = cv2.VideoCapture(str(path)) if path.is_file() else None
        if self._capture is None or not self._capture.isOpened():
            raise NotAVideo(f"{path} is not a film that OpenCV can read")
        self.frame_count = max(0, int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        self._width = int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.fps = rate if 0.1 <= rate <= 1000 else FALLBACK_FPS
        self.identity = video_identity(path)

    @property
    def duration_ms(self) -> int:
        """By the container's own count of frames."""
        return int(self.frame_count / self.fps * 1000)

    def scale(self, width_px: int) -> float:
        """Pixels of the film per pixel of a frame that is read at most so wide."""
        return max(1.0, self._width / width_px)

    def frames_per_look(self, looks_per_second: float) -> int:
        """Of so many frames one is looked at."""
        return max(1, round(self.fps / looks_per_second))

    def at_ms(self, frame_number: int) -> int:
        """Since the film's beginning."""
        return int(frame_number / self.fps * 1000)

    def read_frames(
        self, looks_per_second: float, width_px: int, frames: FrameRange = EVERY_FRAME
    ) -> Iterator[VideoFrame]:
        """Frames to look at, at most this wide, of a range, or to the end of what can be decoded.
        Those of a range are found by counting: few containers can be asked for a frame exactly."""
        assert self._capture is not None
        step = self.frames_per_look(looks_per_second)
        number = 0
        while (frames.end is None or number < frames.end) and self._capture.grab():
            if number >= frames.first and number % step == 0:
                done, frame = self._capture.retrieve()
                if done:
                    yield VideoFrame(number, self.at_ms(number), _narrowed(frame, width_px))
            number += 1

    def close(self) -> None:
        """Release the decoder."""
        if self._capture is not None:
            self._capture.release()


def _narrowed(frame: Image, width_px: int) -> Image:
    height, width = frame.shape[:2]
    if width <= width_px:
        return frame
    narrow: Image = cv2.resize(frame, (width_px, round(height * width_px / width)))
    return narrow


def video_identity(path: Path) -> str:
    """The film's own name, independent of its file's: a hash over its length and both ends."""
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=12)
    with path.open("rb") as file:
        digest.update(file.read(HASHED_BYTES))
        file.seek(max(0, size - HASHED_BYTES))
        digest.update(file.read(HASHED_BYTES))
    return digest.hexdigest()
