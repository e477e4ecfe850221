"""Cut-out targets on disk: those of a long film do not fit into memory.

In: a picture and its mask. Out: the same, later. Never: more bytes than were allowed.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.video.detection.port import Image

JPEG_QUALITY = 95
MASK_LEVELS = 255


class PatchFileError(Exception):
    """The targets do not fit into the bytes that are allowed."""


class Patch(NamedTuple):
    """A target as it was seen: `left`, `top` is where it was in the picture. `behind`: the mean
    colour (BGR) of the background that it was seen before."""

    left: int
    top: int
    image: Image
    mask: NDArray[np.float32]
    behind: tuple[float, float, float]


class PatchFile:
    """Invariant: patch n lies between `_ends[n - 1]` and `_ends[n]`."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._file: BinaryIO = path.open("w+b")
        self._most_bytes = most_bytes
        self._ends = array("q", [0])
        self._split = array("q")  # where the mask begins
        self._places = array("i")
        self._behind = array("f")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, patch: Patch) -> int:
        """Its number. Raises `PatchFileError`."""
        levels = np.round(patch.mask * MASK_LEVELS).astype(np.uint8)
        picture = _encoded(".jpg", patch.image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        data = picture + _encoded(".png", levels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
        begin = self._ends[-1]
        if begin + len(data) > self._most_bytes:
            raise PatchFileError(
                f"the targets need more than {self._most_bytes >> 20} MiB of disk while it is made:"
                " choose fewer (--min-track, --class, --area) or a shorter film"
            )
        self._file.seek(begin)
        self._file.write(data)
        self._split.append(begin + len(picture))
        self._ends.append(begin + len(data))
        self._places.extend((patch.left, patch.top))
        self._behind.extend(patch.behind)
        return len(self._split) - 1

    def read(self, number: int) -> Patch:
        """What was appended."""
        begin, split, end = self._ends[number], self._split[number], self._ends[number + 1]
        self._file.seek(begin)
        data = np.frombuffer(self._file.read(end - begin), np.uint8)
        image = cv2.imdecode(data[: split - begin], cv2.IMREAD_COLOR)
        levels = cv2.imdecode(data[split - begin :], cv2.IMREAD_GRAYSCALE)
        if image is None or levels is None:
            raise OSError(f"patch {number} cannot be read again")
        mask = levels.astype(np.float32) / MASK_LEVELS
        left, top = self._places[2 * number : 2 * number + 2]
        blue, green, red = self._behind[3 * number : 3 * number + 3]
        return Patch(left, top, image, mask, (blue, green, red))


def _encoded(form: str, picture: NDArray[np.uint8], options: list[int]) -> bytes:
    done, data = cv2.imencode(form, picture, options)
    if not done:
        raise RuntimeError(f"OpenCV could not encode a {form}")
    return bytes(data)
