"""`data.video-segment`: one message for each piece of film that is kept, deleted, or was lost.

In/out: frozen structs, JSON with English keys. Never: a picture; the address of a camera's stream.
Pure.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

SegmentState = Literal["stored", "deleted", "gap"]
GapReason = Literal["recorder-ended", "stream-lost", "disk-failed"]
DeletionReason = Literal["age", "space"]
TimeSource = Literal["recorder", "device", "unknown"]
VideoCodec = Literal["h264", "h265"]
CODECS: tuple[str, ...] = get_args(VideoCodec)
MAX_SEGMENT_MS = 120_000
"""No segment is longer: who looks for a moment looks so far back."""


class Keyframe(msgspec.Struct, frozen=True, array_like=True):
    """Where decoding may begin: the byte of the segment, the time of that picture (epoch ms UTC),
    and the camera's own time of it, 0 where it sends none."""

    offset: int
    at_ms: int
    camera_at_ms: int = 0


class VideoSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a camera's film, or that there is none (`state` `gap`, with its `reason`).

    Times are epoch milliseconds UTC, `end_ms` is exclusive. `name` is that of the file within the
    film store; `sha256` is of the whole file. `timed_by` says whose clock the times are of: the
    recorder's; the device's, corrected by `clock_offset_ms` (device minus true time); or a clock of
    which nothing is known. `deleted` follows `stored` with the same `segment_id` and all that was
    said of it; then there is no file any more.
    """

    segment_id: str
    camera_ip: str
    state: SegmentState
    start_ms: int
    end_ms: int
    name: str = ""
    codec: VideoCodec | None = None
    width: int = 0
    height: int = 0
    size_bytes: int = 0
    sha256: str = ""
    keyframes: tuple[Keyframe, ...] = ()
    frames: int = 0
    timed_by: TimeSource = "recorder"
    clock_offset_ms: int = 0
    reason: GapReason | DeletionReason | None = None
    changed_at_ms: int = 0
