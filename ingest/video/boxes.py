"""Rectangles in a picture, and what a detector says is in them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TargetClass = Literal["person", "vehicle", "thing", "face"]
"""`thing`: it moves, and nothing says what it is."""


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
    def coordinates(self) -> tuple[float, float, float, float]:
        """x, y, width, height."""
        return self.x, self.y, self.w, self.h

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
    """One box found at one moment; `score`: how sure the detector is, from 0 to 1."""

    box: Box
    score: float = 0.0
    kind: TargetClass = "thing"
