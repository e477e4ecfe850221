"""Boxes of many moments become tracks: in two stages, by place and colours. Pure.

In: the detections of one moment and its time. Out: tracks that ended. Never: pictures, OpenCV,
the clock.

First the boxes that the detector is sure of are given to tracks, by where these should be and by
their colours, also to tracks that were not seen for a while; then the less sure ones, to tracks
that were seen just before and by place alone: a person half behind another is a box of a low score.
What is left of the sure ones begins a track, which counts once it is seen again. Source: the idea
of ByteTrack (https://arxiv.org/abs/2110.06864), with colours in the first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ingest.video.boxes import Detection, TargetClass
from ingest.video.motion_model import MotionModel
from ingest.video.tracks import Sighting, Track

SURE, NEW = 0.5, 0.55
"""Scores of a detection: for the first stage; to begin a track."""
NEAR = 16.0
"""Squared Mahalanobis distance of four numbers; beyond it lie 3 true boxes of a thousand."""
MOST_COST = 0.7
LEAST_OVERLAP = 0.4  # of a less sure box with where its track should be
COLOURS_SHARE = 0.5  # of the cost; the rest is place
CONFIRMED_LOOKS = 3  # before that a track ends when it is missed once
MAX_LIVE_TRACKS = 500  # a restless picture must not eat the memory
REMEMBERED = 0.9  # of a track's colours, at each look; the rest is what is seen now
OUT_OF_REACH = 1e3

Colours = NDArray[np.float32]
"""A vector of unit length; the inner product of two is how alike they are."""


@dataclass(slots=True)
class _Followed:
    """A live track and what is known of its target."""

    track: Track
    motion: MotionModel
    colours: Colours | None

    @property
    def kind(self) -> TargetClass:
        return self.track.sightings[-1].detection.kind

    def cost(self, detection: Detection, colours: Colours | None) -> float:
        """0 to 1 of a box that may be its own; out of reach otherwise."""
        if detection.kind != self.kind or self.motion.distance(detection.box) > NEAR:
            return OUT_OF_REACH
        place = 1 - self.motion.box.overlap(detection.box)
        if colours is None or self.colours is None:
            return place
        unlike = 1 - float(self.colours @ colours)
        return COLOURS_SHARE * unlike + (1 - COLOURS_SHARE) * place

    def see(self, at_ms: int, detection: Detection) -> None:
        self.motion.correct(detection.box)
        self.track.add(at_ms, detection)

    def remember(self, colours: Colours | None) -> None:
        if colours is None or self.colours is None:
            self.colours = self.colours if colours is None else colours
            return
        mixed = REMEMBERED * self.colours + (1 - REMEMBERED) * colours
        self.colours = mixed / np.linalg.norm(mixed)


@dataclass(slots=True)
class Tracker:
    """Invariant: no detection belongs to two tracks; numbers grow by first sight."""

    lost_ms: int
    _live: list[_Followed] = field(default_factory=list)
    _next_number: int = 1
    _now_ms: int = -1

    @property
    def live(self) -> list[Track]:
        """Tracks that have not ended."""
        return [one.track for one in self._live]

    def step(
        self, at_ms: int, detections: Sequence[Detection], colours: Sequence[Colours | None] = ()
    ) -> list[Track]:
        """Take the boxes of one moment, with the colours of each; hand out the tracks that have
        ended by now. Raises ValueError where time does not grow."""
        if at_ms <= self._now_ms:
            raise ValueError(f"time must grow: {at_ms} after {self._now_ms}")
        before_ms, self._now_ms = self._now_ms, at_ms
        ended = self._end([one for one in self._live if at_ms - one.track.last_ms > self.lost_ms])
        for one in self._live:
            one.motion.advance((at_ms - before_ms) / 1000)
        seen = list(colours) or [None] * len(detections)
        left = self._first_stage(at_ms, detections, seen)
        self._second_stage(at_ms, before_ms, detections)
        missed = [
            one for one in self._live
            if one.track.last_ms < at_ms and len(one.track.sightings) < CONFIRMED_LOOKS
        ]  # fmt: skip
        ended += self._end(missed)
        for number in left:
            self._begin(at_ms, detections[number], seen[number])
        return ended

    def finish(self) -> list[Track]:
        """The film is over: everything that was live ends."""
        return self._end(list(self._live))

    def _end(self, those: Sequence[_Followed]) -> list[Track]:
        gone = {one.track.number for one in those}
        self._live = [one for one in self._live if one.track.number not in gone]
        return [one.track for one in those]

    def _first_stage(
        self, at_ms: int, detections: Sequence[Detection], colours: Sequence[Colours | None]
    ) -> list[int]:
        """Which of the sure detections nobody took."""
        sure = [n for n, one in enumerate(detections) if one.score >= SURE]
        costs = [[one.cost(detections[n], colours[n]) for n in sure] for one in self._live]
        taken = set()
        for row, column in _assigned(costs, MOST_COST):
            number = sure[column]
            self._live[row].see(at_ms, detections[number])
            self._live[row].remember(colours[number])
            taken.add(number)
        return [n for n in sure if n not in taken]

    def _second_stage(
        self, at_ms: int, before_ms: int, detections: Sequence[Detection]
    ) -> None:
        doubtful = [one for one in detections if one.score < SURE]
        waiting = [one for one in self._live if one.track.last_ms == before_ms]
        costs = [[_place_cost(one, other) for other in doubtful] for one in waiting]
        for row, column in _assigned(costs, 1 - LEAST_OVERLAP):
            waiting[row].see(at_ms, doubtful[column])

    def _begin(self, at_ms: int, detection: Detection, colours: Colours | None) -> None:
        if detection.score < NEW or len(self._live) >= MAX_LIVE_TRACKS:
            return
        track = Track(self._next_number, [Sighting(at_ms, detection)])
        self._live.append(_Followed(track, MotionModel.create(detection.box), colours))
        self._next_number += 1


def _place_cost(one: _Followed, detection: Detection) -> float:
    if one.kind != detection.kind:
        return OUT_OF_REACH
    return 1 - one.motion.box.overlap(detection.box)


def _assigned(costs: list[list[float]], most: float) -> list[tuple[int, int]]:
    """Row and column of the pairs whose costs together are lowest, without those above `most`."""
    if not costs or not costs[0]:
        return []
    table = np.array(costs)
    rows, columns = linear_sum_assignment(np.minimum(table, most + 1))
    return [
        (int(row), int(column))
        for row, column in zip(rows, columns, strict=True)
        if table[row, column] <= most
    ]
