"""The background of a film as it changes: a picture per some seconds, kept on disk.

In: the frames of a film in their order, with the boxes of all targets. Out: the background of any
frame, mixed from those of the moments before and after it. Never: more than a few of them in
memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.detection.port import Image
from ingest.video.synopsis.masked_median import Mask, masked_median

SAMPLES = 25  # of a moment
IN_MEMORY = 4
MARGIN = 0.15  # around a target, in its width and height: its shadow and its feet

Floats = NDArray[np.float32]
Region = tuple[slice, slice]


@dataclass(slots=True)
class BackgroundBuilder:
    """Invariant: `moments` has the frame in the middle of each part of the film that is done;
    `folder` its picture and what of it is known."""

    folder: Path
    frames_per_moment: int
    moments: list[int] = field(default_factory=list)
    _pictures: list[Image] = field(default_factory=list)
    _targets: list[Mask] = field(default_factory=list)
    _first: int = 0

    def add(self, number: int, image: Image, boxes: Iterable[tuple[float, ...]]) -> None:
        """The next frame, with all boxes in it (x, y, width, height)."""
        if number - self._first >= self.frames_per_moment:
            self._end_moment(number)
        if (number - self._first) % max(1, self.frames_per_moment // SAMPLES) == 0:
            self._pictures.append(image)
            self._targets.append(_covered(image, boxes))

    def finish(self, frame_count: int) -> Backgrounds:
        """The film is over. What was never free in a moment is taken from the nearest one before
        in which it was, else from the nearest one after."""
        if self._pictures:
            self._end_moment(frame_count)
        numbers = list(range(len(self.moments)))
        self._fill(numbers)
        self._fill(numbers[::-1])
        return Backgrounds(self.folder, self.moments)

    def _end_moment(self, end: int) -> None:
        number = len(self.moments)
        self.moments.append((self._first + end - 1) // 2)
        picture, known = masked_median(self._pictures, self._targets)
        self._pictures, self._targets, self._first = [], [], end
        _write(_picture_path(self.folder, number), picture)
        _write(_known_path(self.folder, number), known.astype(np.uint8) * 255)

    def _fill(self, numbers: list[int]) -> None:
        before: tuple[Image, Mask] | None = None
        for number in numbers:
            picture = _read(_picture_path(self.folder, number), cv2.IMREAD_COLOR)
            known = _read(_known_path(self.folder, number), cv2.IMREAD_GRAYSCALE) > 0
            if before is not None:
                missing = before[1] & ~known
                if missing.any():
                    picture[missing] = before[0][missing]
                    known |= missing
                    _write(_picture_path(self.folder, number), picture)
                    _write(_known_path(self.folder, number), known.astype(np.uint8) * 255)
            before = picture, known


class Backgrounds:
    """Of all moments of a film."""

    def __init__(self, folder: Path, moments: list[int]) -> None:
        self._folder, self._moments = folder, moments
        self._loaded: OrderedDict[int, Image] = OrderedDict()

    def region(self, frame: float, region: Region) -> Floats:
        """What is behind the targets there, at a frame of the film: height x width x 3."""
        at = float(np.interp(frame, self._moments, range(len(self._moments))))
        before = int(at)
        share = np.float32(at - before)
        picture: Floats = self._picture(before)[region].astype(np.float32)
        if share == 0:
            return picture
        return picture * (1 - share) + self._picture(before + 1)[region] * share

    def whole(self, frame: float) -> Floats:
        """The whole picture."""
        return self.region(frame, (slice(None), slice(None)))

    def _picture(self, number: int) -> Image:
        if number not in self._loaded:
            self._loaded[number] = _read(_picture_path(self._folder, number), cv2.IMREAD_COLOR)
            if len(self._loaded) > IN_MEMORY:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(number)
        return self._loaded[number]


def _covered(image: Image, boxes: Iterable[tuple[float, ...]]) -> Mask:
    covered = np.zeros(image.shape[:2], np.bool_)
    for x, y, w, h in boxes:
        left, top = max(0, int(x - w * MARGIN)), max(0, int(y - h * MARGIN))
        right, bottom = max(0, int(x + w * (1 + MARGIN)) + 1), max(0, int(y + h * (1 + MARGIN)) + 1)
        covered[top:bottom, left:right] = True
    return covered


def _picture_path(folder: Path, number: int) -> Path:
    return folder / f"background-{number:05}.png"


def _known_path(folder: Path, number: int) -> Path:
    return folder / f"known-{number:05}.png"


def _write(path: Path, picture: NDArray[np.uint8]) -> None:
    if not cv2.imwrite(str(path), picture, [cv2.IMWRITE_PNG_COMPRESSION, 1]):
        raise OSError(f"{path} cannot be written")


def _read(path: Path, flags: int) -> Image:
    found = cv2.imread(str(path), flags)
    if found is None:
        raise OSError(f"{path} cannot be read")
    picture: Image = found
    return picture
