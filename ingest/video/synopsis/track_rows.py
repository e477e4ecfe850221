"""Reads rows of the MOTChallenge: the tracks that another program found. Pure.

In: text, a row per track and frame: frame (the first is 1), track, left, top, width, height
(pixels, the first is 1), and what else there is (score, class). Out: the points of each track.
Source: https://motchallenge.net/instructions/ (classes: those of the truth files).
"""

from __future__ import annotations

import math
from collections import defaultdict

from ingest.video.boxes import Box, TargetClass
from ingest.video.synopsis.tubes import TubePoint

CLASS_COLUMN = 7
CLASSES: dict[str, TargetClass] = {
    "1": "person", "7": "person", "2": "person",
    "3": "vehicle", "4": "vehicle", "5": "vehicle", "6": "vehicle",
}  # fmt: skip
MOST_ROWS = 5_000_000
MOST_PX = 1e5


class TrackRowsError(Exception):
    """What is wrong with a file of tracks, and in which line."""


def read_track_rows(text: str) -> dict[int, list[TubePoint]]:
    """Points by track, each by frame (from 0). Raises `TrackRowsError`."""
    found: dict[int, dict[int, TubePoint]] = defaultdict(dict)
    for number, line in enumerate(text.splitlines(), 1):
        if number > MOST_ROWS:
            raise TrackRowsError(f"more than {MOST_ROWS:,} lines")
        if not line.strip():
            continue
        track, point = _row(number, line)
        if point.frame in found[track]:
            raise TrackRowsError(f"line {number}: track {track} stands twice in this frame")
        found[track][point.frame] = point
    return {
        track: [points[frame] for frame in sorted(points)]
        for track, points in sorted(found.items())
    }


def _row(number: int, line: str) -> tuple[int, TubePoint]:
    words = [word.strip() for word in line.split(",")]
    try:
        frame, track = int(words[0]), int(words[1])
        x, y, w, h = (float(word) for word in words[2:6])
    except ValueError as error:
        raise TrackRowsError(
            f"line {number}: needs frame, track, left, top, width, height"
        ) from error
    except IndexError as error:
        raise TrackRowsError(f"line {number}: needs six columns at least") from error
    if not 1 <= frame <= 2**40 or not -(2**53) <= track <= 2**53:
        raise TrackRowsError(f"line {number}: frames are numbered from 1")
    if not all(math.isfinite(one) and abs(one) <= MOST_PX for one in (x, y, w, h)):
        raise TrackRowsError(f"line {number}: a box of impossible size")
    if w <= 0 or h <= 0:
        raise TrackRowsError(f"line {number}: a box needs a width and a height")
    kind = CLASSES.get(words[CLASS_COLUMN], "thing") if len(words) > CLASS_COLUMN else "thing"
    return track, TubePoint(frame - 1, Box(x - 1, y - 1, w, h), kind)
