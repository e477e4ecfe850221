"""Which track of a stream is its film (SDP, RFC 8866; RFC 6184 and RFC 7798 for the codecs). Pure.

In: the body of an answer to DESCRIBE. Out: the video track. Raises `RtspError` where there is none
that can be kept as it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from bus.contracts.video_segments import VideoCodec
from ingest.films.rtsp.messages import RtspError

_CODECS: Mapping[str, VideoCodec] = {"H264": "h264", "H265": "h265"}
_SETS = ("sprop-parameter-sets", "sprop-vps", "sprop-sps", "sprop-pps")
MAX_LINES = 1_000


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """`clock_hz`: of the RTP timestamps; `parameter_sets`: what decoding needs, as far as it is
    told here; `control`: what SETUP names."""

    codec: VideoCodec
    payload_type: int
    clock_hz: int
    control: str
    parameter_sets: tuple[bytes, ...] = ()


def video_track(body: bytes) -> VideoTrack:
    """The first track of a codec that is understood. Raises `RtspError`."""
    seen: list[str] = []
    for lines in _media(body):
        if lines[0].startswith("video "):
            found = _track(lines, seen)
            if found is not None:
                return found
    there = f"its video is {', '.join(seen)}" if seen else "there is no video"
    raise RtspError(f"the stream has no film in H.264 or H.265: {there}")


def control_url(base: str, control: str) -> str:
    """What a request names (RFC 2326, C.1.1). It is sent over the same connection, whatever host it
    names: nothing is opened by it."""
    if not control or control == "*":
        return base
    if "://" in control:
        return control
    return urljoin(base if base.endswith("/") else base + "/", control)


def _media(body: bytes) -> list[list[str]]:
    sections: list[list[str]] = []
    for line in body.decode("utf-8", "replace").splitlines()[:MAX_LINES]:
        name, equals, value = line.strip().partition("=")
        if not equals:
            continue
        if name == "m":
            sections.append([value])
        elif sections and name == "a":
            sections[-1].append(value)
    return sections


def _track(lines: list[str], seen: list[str]) -> VideoTrack | None:
    attributes = [line.partition(":") for line in lines[1:]]
    formats = {}
    for name, _, value in attributes:
        if name == "fmtp":
            number, _, parameters = value.partition(" ")
            formats[number] = parameters
    control = next((value for name, _, value in attributes if name == "control"), "")
    for name, _, value in attributes:
        if name != "rtpmap":
            continue
        number, _, encoding = value.partition(" ")
        codec_name, _, clock = encoding.strip().partition("/")
        seen.append(codec_name[:20])
        codec = _CODECS.get(codec_name.upper())
        clock_hz = clock.partition("/")[0]
        if codec is not None and _is_number(number, 127) and _is_number(clock_hz, 10_000_000):
            sets = _parameter_sets(formats.get(number, ""))
            return VideoTrack(codec, int(number), int(clock_hz), control, sets)
    return None


def _is_number(text: str, most: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 9 and 0 < int(text) <= most


def _parameter_sets(parameters: str) -> tuple[bytes, ...]:
    found = []
    for part in parameters.split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() in _SETS:
            for text in value.split(","):
                try:
                    found.append(base64.b64decode(text, validate=True))
                except binascii.Error:
                    continue  # what is said here comes again in the stream
    return tuple(one for one in found if one)
