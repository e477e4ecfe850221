"""Boxes of many moments become tracks: Hungarian assignment on overlap, constant velocity.

In: the detections of one moment and its time. Out: tracks that ended. Never: pictures, OpenCV,
the clock.

A track lives from its first box until it was not seen for `lost_ms`. Each step predicts where every
live track should be, assigns boxes to tracks so that the sum of overlaps is greatest, and begins a
track for every box left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

LEAST_OVERLAP = 0.2  # of the predicted and the found box; below it they are two targets
SMOOTHING = 0.4  # weight of the newest step in the velocity
MAX_LIVE_TRACKS = 500  # a restless picture must not eat the memory


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; `x`, `y` is its upper left corner."""

    x: float
    y: float
    w: float
    h: float

    @property
    def area(self) -> float:
        """Square pixels."""
        return self.w * self.h

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return self.x + self.w / 2, self.y + self.h / 2

    def moved(self, dx: float, dy: float) -> Box:
        """The same rectangle elsewhere."""
        return Box(self.x + dx, self.y + dy, self.w, self.h)

    def common(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.x + self.w, other.x + other.w) - max(self.x, other.x)
        height = min(self.y + self.h, other.y + other.h) - max(self.y, other.y)
        return width * height if width > 0 and height > 0 else 0.0

    def overlap(self, other: Box) -> float:
        """Intersection over union, 0 to 1."""
        common = self.common(other)
        return common / (self.area + other.area - common) if common else 0.0


@dataclass(frozen=True, slots=True)
class Detection:
    """One box found at one moment. `person`: the people detector found it; `score` at least 0."""

    box: Box
    score: float = 0.0
    person: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a track was at one moment."""

    at_ms: int
    detection: Detection


@dataclass(slots=True)
class Track:
    """Invariant: `sightings` is not empty and its times grow."""

    number: int
    sightings: list[Sighting]
    velocity: tuple[float, float] = (0.0, 0.0)  # pixels per millisecond

    @property
    def first_ms(self) -> int:
        """When it was first seen."""
        return self.sightings[0].at_ms

    @property
    def last_ms(self) -> int:
        """When it was last seen."""
        return self.sightings[-1].at_ms

    @property
    def person_share(self) -> float:
        """In what share of its sightings the people detector agreed."""
        return sum(s.detection.person for s in self.sightings) / len(self.sightings)

    @property
    def best(self) -> Sighting:
        """The sighting to be shown: of the surest; the largest where nothing was sure."""
        return max(self.sightings, key=_how_well)

    def best_since(self, at_ms: int) -> Sighting | None:
        """As `best`, of the sightings from then on; None where there are none."""
        since = (s for s in self.sightings if s.at_ms >= at_ms)
        return max(since, key=_how_well, default=None)

    def predicted(self, at_ms: int) -> Box:
        """Where it should be now if it goes on as before."""
        passed_ms = at_ms - self.last_ms
        dx, dy = self.velocity
        return self.sightings[-1].detection.box.moved(dx * passed_ms, dy * passed_ms)

    def update(self, at_ms: int, detection: Detection) -> None:
        """It was seen again."""
        self.velocity = self._new_velocity(at_ms, detection.box)
        self.sightings.append(Sighting(at_ms, detection))

    def _new_velocity(self, at_ms: int, box: Box) -> tuple[float, float]:
        passed_ms = at_ms - self.last_ms
        (x0, y0), (x1, y1) = self.sightings[-1].detection.box.centre, box.centre
        vx, vy = self.velocity
        return (
            vx + SMOOTHING * ((x1 - x0) / passed_ms - vx),
            vy + SMOOTHING * ((y1 - y0) / passed_ms - vy),
        )


def _how_well(sighting: Sighting) -> tuple[float, float]:
    return sighting.detection.score, sighting.detection.box.area


@dataclass(slots=True)
class Tracker:
    """Invariant: no detection belongs to two tracks; numbers grow by first sight."""

    lost_ms: int
    live: list[Track] = field(default_factory=list)
    _next_number: int = 1
    _now_ms: int = -1

    def step(self, at_ms: int, detections: Sequence[Detection]) -> list[Track]:
        """Take the boxes of one moment; hand out the tracks that have ended by now."""
        if at_ms <= self._now_ms:
            raise ValueError(f"time must grow: {at_ms} after {self._now_ms}")
        self._now_ms = at_ms
        ended = self._end_lost(at_ms)
        pairs = self._assign(at_ms, detections)
        for track_index, detection_index in pairs:
            self.live[track_index].update(at_ms, detections[detection_index])
        taken = {detection_index for _, detection_index in pairs}
        self._begin(at_ms, [d for index, d in enumerate(detections) if index not in taken])
        return ended

    def finish(self) -> list[Track]:
        """The film is over: everything that was live ends."""
        ended, self.live = self.live, []
        return ended

    def _end_lost(self, at_ms: int) -> list[Track]:
        ended = [track for track in self.live if at_ms - track.last_ms > self.lost_ms]
        self.live = [track for track in self.live if at_ms - track.last_ms <= self.lost_ms]
        return ended

    def _assign(self, at_ms: int, detections: Sequence[Detection]) -> list[tuple[int, int]]:
        if not self.live or not detections:
            return []
        overlaps = np.array(
            [
                [predicted.overlap(detection.box) for detection in detections]
                for predicted in (track.predicted(at_ms) for track in self.live)
            ]
        )
        rows, columns = linear_sum_assignment(overlaps, maximize=True)
        return [
            (int(row), int(column))
            for row, column in zip(rows, columns, strict=True)
            if overlaps[row, column] >= LEAST_OVERLAP
        ]

    def _begin(self, at_ms: int, detections: Sequence[Detection]) -> None:
        for detection in detections[: MAX_LIVE_TRACKS - len(self.live)]:
            self.live.append(Track(self._next_number, [Sighting(at_ms, detection)]))
            self._next_number += 1


def without_covered(found: Sequence[Detection], by: Sequence[Detection]) -> list[Detection]:
    """Those of `found` that are not mostly the same thing as one of `by` (blobs beside people)."""
    return [d for d in found if not any(_same_thing(d.box, other.box) for other in by)]


def _same_thing(blob: Box, person: Box) -> bool:
    """A blob is the person's if they share half of the smaller one."""
    return blob.common(person) > 0.5 * min(blob.area, person.area)
