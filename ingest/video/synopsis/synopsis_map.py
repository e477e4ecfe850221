"""Which moment of which film each target of a synopsis is of. Pure.

In: the bytes of a map, as they lie beside a synopsis. Out: the map; the source of a place in the
synopsis. Never: a map whose numbers contradict each other.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

VERSION = 1
MAX_BYTES = 256 << 20
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Pixel = Annotated[int, msgspec.Meta(ge=-100_000, le=100_000)]
Length = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=1000)]


class SynopsisMapError(Exception):
    """Why bytes are no map of a synopsis."""


class MappedTarget(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One target in one frame: its box in pixels of the synopsis, and the frame (from 0) and time
    (milliseconds since the beginning) of the film that it is of. `label`: where its time is
    written, x, y, width, height; None where there was no room."""

    track: int
    x: Pixel
    y: Pixel
    w: Length
    h: Length
    source_frame: Count
    source_ms: Count
    label: tuple[Pixel, Pixel, Length, Length] | None = None


class SynopsisMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`frames`: the targets of each frame of the synopsis, the farthest first, as they were drawn.
    `film`: the source's name; `film_identity`: a hash that knows it again. `begun`: local time of
    its first frame, where it was given. `recognised_by`: what found the targets."""

    version: int
    film: str
    film_identity: str
    source_fps: Rate
    source_frames: Count
    begun: str
    recognised_by: str
    fps: Rate
    width: Length
    height: Length
    seed: int
    frames: list[list[MappedTarget]]


def encode_map(one: SynopsisMap) -> bytes:
    """JSON."""
    return msgspec.json.encode(one)


def decode_map(data: bytes) -> SynopsisMap:
    """Raises `SynopsisMapError`."""
    if len(data) > MAX_BYTES:
        raise SynopsisMapError(f"larger than {MAX_BYTES >> 20} MiB")
    try:
        found = msgspec.json.decode(data, type=SynopsisMap)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SynopsisMapError(f"no map of a synopsis: {error}") from error
    if found.version != VERSION:
        raise SynopsisMapError(f"version {found.version}; known: {VERSION}")
    for number, frame in enumerate(found.frames):
        if any(one.source_frame >= found.source_frames for one in frame):
            raise SynopsisMapError(f"frame {number} names a frame that the film does not have")
    return found


def source_at(one: SynopsisMap, at_s: float, x: float, y: float) -> MappedTarget | None:
    """The target at a place of the synopsis (seconds, pixels): the foremost whose box or label is
    there; None beside all, before the beginning or after the end."""
    number = int(at_s * one.fps + 1e-6)
    if at_s < 0 or number >= len(one.frames):
        return None
    for target in reversed(one.frames[number]):
        if target.label is not None and _holds(target.label, x, y):
            return target
    for target in reversed(one.frames[number]):
        if _holds((target.x, target.y, target.w, target.h), x, y):
            return target
    return None


def map_schema() -> str:
    """The JSON Schema of a map, as it lies in docs/."""
    schema: dict[str, Any] = msgspec.json.schema(SynopsisMap)
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _holds(box: tuple[int, int, int, int], x: float, y: float) -> bool:
    return box[0] <= x < box[0] + box[2] and box[1] <= y < box[1] + box[3]
