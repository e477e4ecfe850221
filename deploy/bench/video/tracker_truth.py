"""The tracker alone, on the true boxes of public films made worse by a seed.

In: the truth of TUD-Campus and TUD-Stadtmitte, as it lies in the package `motmetrics` (MIT); a
seed. Out: MOTA and how often identities switch, of our tracker and of a plain one. Never:
pictures, hence no colours: what is measured is motion and assignment.

A tenth of the boxes is missing, as many false ones as a twentieth of the true ones are added, of a
true one's size and as sure; the edges of all are off by two pixels (one standard deviation).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from deploy.errors import OperatorError
from ingest.video.boxes import Box, Detection
from ingest.video.synopsis.track_rows import read_track_rows
from ingest.video.tracker import Tracker

FILMS = ("TUD-Campus", "TUD-Stadtmitte")
FRAME_MS = 40
MISSED, FALSE, NOISE_PX = 0.10, 0.05, 2.0
SCORE = 0.9
LOST_MS = 6000
PLAIN_OVERLAP, PLAIN_LOST_FRAMES = 0.3, 30
MATCHED_OVERLAP = 0.5  # of a box and a true one, for both to be the same

Boxes = Mapping[int, Mapping[int, Box]]
"""Frame -> identity -> box."""


class TrackFigures(NamedTuple):
    """`mota` 0 to 1; `switches`: identities that changed, of all films together."""

    mota: float
    switches: int


def truth(film: str) -> Boxes:
    """The true boxes of a film, every frame."""
    found = find_spec("motmetrics")
    if found is None or found.origin is None:
        raise OperatorError("needs motmetrics, which the first `./databus test` installs")
    path = Path(found.origin).parent / "data" / film / "gt.txt"
    frames: dict[int, dict[int, Box]] = defaultdict(dict)
    for track, points in read_track_rows(path.read_text("ascii")).items():
        for point in points:
            frames[point.frame][track] = point.box
    return {frame: frames.get(frame, {}) for frame in range(max(frames) + 1)}


def noisy(true: Boxes, rng: np.random.Generator) -> list[list[Box]]:
    """What a detector of that quality would find, frame by frame."""
    sizes = [(box.w, box.h) for boxes in true.values() for box in boxes.values()]
    everywhere = [box for boxes in true.values() for box in boxes.values()]
    width = max(box.x + box.w for box in everywhere)
    height = max(box.y + box.h for box in everywhere)
    found = []
    for boxes in true.values():
        seen = [_moved(box, rng) for box in boxes.values() if rng.random() >= MISSED]
        for _ in range(int(rng.binomial(len(boxes), FALSE))):
            w, h = sizes[int(rng.integers(len(sizes)))]
            x, y = rng.uniform(0, max(1, width - w)), rng.uniform(0, max(1, height - h))
            seen.append(Box(float(x), float(y), w, h))
        found.append([seen[at] for at in rng.permutation(len(seen))])
    return found


def our_tracks(found: Sequence[Sequence[Box]], seen_frames: int = 3) -> Boxes:
    """By the tracker of films; tracks that were seen less often do not count, as in a film. Where a
    track was not seen for a few frames it is where it moved on to, as in `mot_rows`."""
    from ingest.video.mot_rows import mot_rows

    tracker, ended = Tracker(LOST_MS), []
    for number, boxes in enumerate(found):
        ended += tracker.step(number * FRAME_MS, [Detection(box, SCORE, "person") for box in boxes])
    ended += tracker.finish()
    counted = [track for track in ended if len(track.sightings) >= seen_frames]
    frames = {number * FRAME_MS: number for number in range(len(found))}
    tracks: dict[int, dict[int, Box]] = {number: {} for number in range(len(found))}
    rows = "\n".join(mot_rows(counted, frames, 1.0, 0))
    for track, points in read_track_rows(rows).items():
        for point in points:
            tracks[point.frame][track] = point.box
    return tracks


def plain_tracks(found: Sequence[Sequence[Box]]) -> Boxes:
    """By overlap with the last box alone, assigned at best: no motion, no filling of gaps."""
    last: dict[int, tuple[int, Box]] = {}
    tracks: dict[int, dict[int, Box]] = {}
    following = 1
    for number, boxes in enumerate(found):
        last = {k: one for k, one in last.items() if number - one[0] <= PLAIN_LOST_FRAMES}
        keys, now = list(last), dict[int, Box]()
        if keys and boxes:
            table = np.array([[last[key][1].overlap(box) for box in boxes] for key in keys])
            for row, column in zip(*linear_sum_assignment(table, maximize=True), strict=True):
                if table[row, column] >= PLAIN_OVERLAP:
                    now[keys[row]] = boxes[column]
        for box in boxes:
            if box not in now.values():
                now[following] = box
                following += 1
        last |= {key: (number, box) for key, box in now.items()}
        tracks[number] = now
    return tracks


def score(pairs: Sequence[tuple[Boxes, Boxes]]) -> TrackFigures:
    """Of truth and tracks, film by film, by the package's own counting (CLEAR MOT)."""
    import motmetrics

    accumulators = [_accumulated(true, tracks) for true, tracks in pairs]
    table = motmetrics.metrics.create().compute_many(
        accumulators, metrics=["mota", "num_switches"], generate_overall=True
    )
    whole = table.loc["OVERALL"]
    return TrackFigures(float(whole["mota"]), int(whole["num_switches"]))


def compared(seed: int) -> tuple[TrackFigures, TrackFigures]:
    """Our tracker and the plain one on the same boxes of both films."""
    rng = np.random.default_rng(seed)
    ours, plain = [], []
    for film in FILMS:
        true = truth(film)
        found = noisy(true, rng)
        ours.append((true, our_tracks(found)))
        plain.append((true, plain_tracks(found)))
    return score(ours), score(plain)


def _accumulated(true: Boxes, tracks: Boxes) -> object:
    import motmetrics

    accumulator = motmetrics.MOTAccumulator(auto_id=True)
    for number, boxes in true.items():
        there = tracks.get(number, {})
        distances = np.array([list(_distances(box, there)) for box in boxes.values()])
        accumulator.update(list(boxes), list(there), distances.reshape(len(boxes), len(there)))
    return accumulator


def _distances(box: Box, there: Mapping[int, Box]) -> Iterator[float]:
    for other in there.values():
        overlap = box.overlap(other)
        yield 1 - overlap if overlap >= MATCHED_OVERLAP else float("nan")


def _moved(box: Box, rng: np.random.Generator) -> Box:
    left, top, right, bottom = rng.normal(0, NOISE_PX, 4)
    x, y = box.x + left, box.y + top
    return Box(x, y, max(1.0, box.x + box.w + right - x), max(1.0, box.y + box.h + bottom - y))
