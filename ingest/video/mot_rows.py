"""Tracks as rows of the MOTChallenge, to be measured against a film's truth. Pure.

In: tracks, and the frame of each moment. Out: text, a row per track and frame: frame (the first is
1), track, left, top, width, height (pixels, the first is 1), score, -1, -1, -1. Never: a flicker.
Source: https://motchallenge.net/instructions/.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from ingest.video.boxes import Box
from ingest.video.tracks import Track

LONGEST_GAP_MS = 2000  # who was hidden for longer may have gone another way


def mot_rows(
    tracks: Iterable[Track], frame_of_ms: Mapping[int, int], scale: float, least_ms: int
) -> Iterator[str]:
    """By frame and track. `frame_of_ms`: the number of each frame that was looked at, from 0;
    `scale`: pixels of the film per pixel of what was looked at."""
    moments = sorted(frame_of_ms)
    rows = []
    for track in tracks:
        if track.last_ms - track.first_ms < least_ms:
            continue
        for at_ms, box, score in _filled(track, moments):
            rows.append((frame_of_ms[at_ms] + 1, track.number, box, score))
    rows.sort(key=lambda row: row[:2])
    for frame, number, box, score in rows:
        corner = f"{box.x * scale + 1:.1f},{box.y * scale + 1:.1f}"
        size = f"{box.w * scale:.1f},{box.h * scale:.1f}"
        yield f"{frame},{number},{corner},{size},{score:.3f},-1,-1,-1"


def _filled(track: Track, moments: list[int]) -> Iterator[tuple[int, Box, float]]:
    """Its boxes, with those between two that are not long apart."""
    first = track.sightings[0]
    yield first.at_ms, first.detection.box, first.detection.score
    for before, after in pairwise(track.sightings):
        passed = after.at_ms - before.at_ms
        if passed <= LONGEST_GAP_MS:
            score = min(before.detection.score, after.detection.score)
            between = slice(bisect_right(moments, before.at_ms), bisect_left(moments, after.at_ms))
            for at_ms in moments[between]:
                share = (at_ms - before.at_ms) / passed
                yield at_ms, _between(before.detection.box, after.detection.box, share), score
        yield after.at_ms, after.detection.box, after.detection.score


def _between(one: Box, other: Box, share: float) -> Box:
    pairs = zip(one.coordinates, other.coordinates, strict=True)
    return Box(*(a + share * (b - a) for a, b in pairs))
