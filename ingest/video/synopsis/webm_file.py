"""A film in WebM (VP8), which every browser plays and which no patent holder asks money for.

In: pictures of one size. Out: a file, once it is whole. Never: half a film under its name.
The encoder is libvpx (BSD) in the FFmpeg (LGPL) of OpenCV's own wheel.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import cv2

from ingest.video.detection.port import Image

CODEC = "VP80"


class WebmFile:
    """Leaving the `with` block without an exception puts it in its place."""

    def __init__(self, path: Path, fps: float, size: tuple[int, int]) -> None:
        """Raises OSError where it cannot be written."""
        self._path, self._partial = path, path.with_name(f".{path.stem}.partial.webm")
        self._writer = cv2.VideoWriter(
            str(self._partial), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*CODEC), fps, size
        )
        if not self._writer.isOpened():
            self._partial.unlink(missing_ok=True)
            raise OSError(f"{path} cannot be written as WebM")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._writer.release()
        if kind is not None:
            self._partial.unlink(missing_ok=True)
            return
        with self._partial.open("rb+") as file:
            os.fsync(file.fileno())
        self._partial.replace(self._path)

    def write(self, picture: Image) -> None:
        """The next picture."""
        self._writer.write(picture)
