"""Which pieces of film reach into a span of time, and where a moment is in them. Pure.

In: rows of one camera's film. Out: those of a span; of a moment the segment, the keyframe from
which it is decoded, and how far behind that it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bus.contracts.video_segments import MAX_SEGMENT_MS, Keyframe, VideoSegment


def spanning(
    newest_first: Iterable[VideoSegment], from_ms: int
) -> Iterator[VideoSegment]:
    """Of rows by falling `start_ms`, all before the end of a span, those that reach into it. Only
    a gap may be longer than a segment, and nothing lies within a gap: the first row that begins
    earlier than any segment of the span could is the last one to look at."""
    for one in newest_first:
        if one.end_ms > from_ms:
            yield one
        if one.start_ms <= from_ms - MAX_SEGMENT_MS:
            return


class FilmPosition(NamedTuple):
    """Decode from `keyframe` on; the moment is `after_ms` later."""

    segment: VideoSegment
    keyframe: Keyframe
    after_ms: int


def position_at(segments: Sequence[VideoSegment], at_ms: int) -> FilmPosition | None:
    """Where a moment of a film is; None where no film of it is kept. `segments`: by `start_ms`,
    those that cover the moment among them; deleted ones and gaps do not count."""
    for segment in reversed(segments):
        if segment.state != "stored" or not segment.start_ms <= at_ms < segment.end_ms:
            continue
        number = bisect_right(segment.keyframes, at_ms, key=lambda one: one.at_ms)
        if number:
            keyframe = segment.keyframes[number - 1]
            return FilmPosition(segment, keyframe, at_ms - keyframe.at_ms)
    return None
