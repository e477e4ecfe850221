"""A film in parts that are searched apart, and their tracks put together again. Pure.

In: how many frames a film has, how often it is looked at, what was found in each part. Out: parts,
tracks of the whole film. Never: pictures, OpenCV, a look that two parts count.

A part reads some looks before its own: the background is learnt there, and who is in the picture
is seen there by the part before as well. Two tracks are one target if their boxes lie on one
another at the moments that both saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ingest.video.tracks import Sighting, Track

LEAST_OVERLAP = 0.2  # of two boxes that are one target's at one moment


class FrameRange(NamedTuple):
    """Frames `first` (inclusive) to `end` (exclusive); no end: to the end of the film."""

    first: int = 0
    end: int | None = None


class VideoPart(NamedTuple):
    """`frames` are read; what is seen from frame `counted_from` on counts."""

    frames: FrameRange = FrameRange()
    counted_from: int = 0


WHOLE = VideoPart()


class PartTracks(NamedTuple):
    """All tracks of one part, flickers too, and the moment from which on it counts. They end where
    the part does, though their targets may go on."""

    counted_from_ms: int
    tracks: Sequence[Track]


class MergedTrack(NamedTuple):
    """One target of the whole film. `best_of`: the part whose picture shows it best, and the number
    that it has there."""

    track: Track
    best_of: tuple[int, int]


class _Piece(NamedTuple):
    """What counts of one part's track."""

    part: int
    number: int
    sightings: list[Sighting]


def parts_of(
    frame_count: int, frames_per_look: int, parts: int, *, lead_looks: int, aligned_looks: int = 1
) -> list[VideoPart]:
    """As many parts of about the same length, fewer of a short film. Each begins at a multiple of
    `aligned_looks`, where a search of the whole film looks, too."""
    stride = frames_per_look * aligned_looks
    strides = -(-frame_count // stride)
    count = max(1, min(parts, strides))
    begins = [stride * (number * strides // count) for number in range(count)]
    lead = stride * -(-lead_looks // aligned_looks)
    ends: list[int | None] = [*begins[1:], None]
    return [
        VideoPart(FrameRange(max(0, begin - lead), end), begin)
        for begin, end in zip(begins, ends, strict=True)
    ]


def merged(parts: Sequence[PartTracks]) -> list[MergedTrack]:
    """The tracks of the whole film from those of its parts, given in order; numbered by first
    sight."""
    chains: list[list[_Piece]] = []
    chain_of: dict[int, list[_Piece]] = {}  # of the part before, by the number there
    for index, part in enumerate(parts):
        before = parts[index - 1].tracks if index else ()
        same = _same_targets(before, part)
        now: dict[int, list[_Piece]] = {}
        for track in part.tracks:
            sightings = [s for s in track.sightings if s.at_ms >= part.counted_from_ms]
            chain = chain_of.get(same.get(track.number, -1))
            if chain is None and sightings:
                chain = []
                chains.append(chain)
            if chain is not None:  # hidden in a short part, it may be seen again in the next one
                now[track.number] = chain
                chain += [_Piece(index, track.number, sightings)] if sightings else []
        chain_of = now
    chains.sort(key=lambda chain: (chain[0].sightings[0].at_ms, chain[0].part, chain[0].number))
    return [_joined(number, chain) for number, chain in enumerate(chains, 1)]


def _same_targets(before: Sequence[Track], part: PartTracks) -> dict[int, int]:
    """Number in this part -> number in the part before."""
    if not before or not part.tracks:
        return {}
    likeness = np.array([[_overlaps(old, new, part) for old in before] for new in part.tracks])
    rows, columns = linear_sum_assignment(likeness[:, :, 0], maximize=True)
    return {
        part.tracks[row].number: before[column].number
        for row, column in zip(rows, columns, strict=True)
        if likeness[row, column, 1] >= LEAST_OVERLAP
    }


def _overlaps(old: Track, new: Track, part: PartTracks) -> tuple[float, float]:
    """How far their boxes lie on one another at the moments before the part counts: together, so
    that who was seen for longer is sooner the same, and on average, 0 to 1."""
    boxes = {s.at_ms: s.detection.box for s in old.sightings if s.at_ms < part.counted_from_ms}
    overlaps = [
        boxes[s.at_ms].overlap(s.detection.box) for s in new.sightings if s.at_ms in boxes
    ]
    return sum(overlaps), sum(overlaps) / len(overlaps) if overlaps else 0.0


def _joined(number: int, chain: Sequence[_Piece]) -> MergedTrack:
    pieces = [Track(piece.number, piece.sightings) for piece in chain]
    track = Track(number, [sighting for piece in chain for sighting in piece.sightings])
    best = track.best
    best_at = next(at for at, piece in enumerate(pieces) if piece.best is best)
    return MergedTrack(track, (chain[best_at].part, chain[best_at].number))
