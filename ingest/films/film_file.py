"""A film's file as access units: any container that OpenCV opens, nothing decoded.

In: a path. Out: pictures as they stand in the file, each with its time. Raises `NotAFilm`. Never:
an address of the network; a codec that would have to be encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from bus.contracts.video_segments import VideoCodec
from ingest.films.nal_units import is_key, is_parameter_set
from ingest.films.rtsp.rtp import AccessUnit

CLOCK_HZ = 90_000
_CODECS: dict[str, VideoCodec] = {
    "h264": "h264", "avc1": "h264", "avc3": "h264", "x264": "h264",
    "hevc": "h265", "hvc1": "h265", "hev1": "h265", "h265": "h265",
}  # fmt: skip
_START_CODE = re.compile(rb"\x00\x00\x00?\x01")


class NotAFilm(Exception):
    """A file that cannot be taken as it is."""


class FilmFile:
    """One file, read from its beginning to its end once."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise NotAFilm(f"there is no file {path}")
        raw = [cv2.CAP_PROP_FORMAT, -1]
        self._capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG, raw)
        if not self._capture.isOpened():
            raise NotAFilm(f"{path} is not a film that can be read")
        number = int(self._capture.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        name = number.to_bytes(4, "little").decode("ascii", "replace").lower()
        codec = _CODECS.get(name)
        if codec is None:
            self._capture.release()
            raise NotAFilm(f"{path} is in {name!r}; films are kept in H.264 and H.265 only")
        self.codec: VideoCodec = codec

    def units(self, start_ms: int) -> Iterator[AccessUnit]:
        """Its pictures in the order of decoding, as if they had come at their times."""
        head = self._head()
        first: float | None = None
        while True:
            there, data = self._capture.read()
            if not there:
                self._capture.release()
                return
            at_ms = float(self._capture.get(cv2.CAP_PROP_POS_MSEC))
            first = at_ms if first is None else first
            nals = tuple(nal_units(np.asarray(data).tobytes()))
            if not nals:
                continue
            is_first = any(is_key(self.codec, one) for one in nals)
            if is_first and head and not any(is_parameter_set(self.codec, one) for one in nals):
                nals = (*head, *nals)
            passed_ms = at_ms - first
            yield AccessUnit(
                nals, round(passed_ms * CLOCK_HZ / 1000), start_ms + round(passed_ms), 0, is_first
            )

    def _head(self) -> tuple[bytes, ...]:
        """Parameter sets that stand before all pictures."""
        index = int(self._capture.get(cv2.CAP_PROP_CODEC_EXTRADATA_INDEX))
        there, data = self._capture.retrieve(flag=index) if index >= 0 else (False, None)
        if not there or data is None:
            return ()
        found = nal_units(np.asarray(data).tobytes())
        return tuple(one for one in found if is_parameter_set(self.codec, one))


def nal_units(stream: bytes) -> list[bytes]:
    """The NAL units between start codes (H.264, annex B)."""
    codes = [found.span() for found in _START_CODE.finditer(stream)]
    stops = [*(start for start, _ in codes[1:]), len(stream)][: len(codes)]
    pieces = (stream[end:stop] for (_, end), stop in zip(codes, stops, strict=True))
    return [piece.rstrip(b"\x00") for piece in pieces if piece]
