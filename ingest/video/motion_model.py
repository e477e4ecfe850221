"""Where a target will be: its box moves on at the speed it has, more or less. Pure.

In: boxes and how much time lies between them. Out: the box that is expected, and how unlikely
another one is. Never: which box is whose.

A Kalman filter for each of centre and size; the four know nothing of each other, so that each is
one of two numbers (value and speed). What is not known of a person's next steps is an acceleration,
in heights of the box per second squared: it does not depend on how often a film is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box

Vector = NDArray[np.float64]

MEASURED = np.array((0.05, 0.05, 0.1, 0.1))
"""How far a detector is off: centre (x, y), width, height; in heights."""
ACCELERATION = np.array((1.2, 1.2, 0.3, 0.3))
"""In heights per second squared."""
FIRST_SPEED = np.array((1.0, 1.0, 0.2, 0.2))
"""Of a target of which one box is known, in heights per second: a fast walker's."""


@dataclass(slots=True)
class MotionModel:
    """Invariant: `spread` are the covariances of value and speed: value's, both, speed's."""

    values: Vector
    speeds: Vector
    spread: Vector

    @classmethod
    def create(cls, box: Box) -> MotionModel:
        """Of a target that is seen for the first time."""
        spread = np.stack([(MEASURED * box.h) ** 2, np.zeros(4), (FIRST_SPEED * box.h) ** 2])
        return cls(_values(box), np.zeros(4), spread)

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.values = self.values + self.speeds * seconds
        own, both, speed = self.spread
        noise = (ACCELERATION * self._height()) ** 2
        self.spread = np.stack([
            own + 2 * seconds * both + seconds**2 * speed + noise * seconds**4 / 4,
            both + seconds * speed + noise * seconds**3 / 2,
            speed + noise * seconds**2,
        ])  # fmt: skip

    def correct(self, box: Box) -> None:
        """The target was seen there."""
        own, both, speed = self.spread
        sure = own + (MEASURED * box.h) ** 2
        of_value, of_speed = own / sure, both / sure
        missed = _values(box) - self.values
        self.values = self.values + of_value * missed
        self.speeds = self.speeds + of_speed * missed
        self.spread = np.stack([
            own - of_value * own, both - of_value * both, speed - of_speed * both
        ])  # fmt: skip

    def stop(self) -> None:
        """Unseen for a while: it may as well have stopped."""
        self.speeds = self.speeds * 0.0

    @property
    def box(self) -> Box:
        """Where it should be now."""
        x, y, w, h = (float(one) for one in self.values)
        w, h = max(1.0, w), max(1.0, h)
        return Box(x - w / 2, y - h / 2, w, h)

    def distance(self, box: Box) -> float:
        """Of a box from where it should be: the squared Mahalanobis distance of four numbers."""
        sure = self.spread[0] + (MEASURED * self._height()) ** 2
        return float(np.sum((_values(box) - self.values) ** 2 / sure))

    def _height(self) -> float:
        return max(1.0, float(self.values[3]))


def _values(box: Box) -> Vector:
    x, y = box.centre
    return np.array((x, y, box.w, box.h))
