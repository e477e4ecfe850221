"""Which targets a synopsis shows. Pure.

In: tubes and what was asked for. Out: those that fit. Never: a doubt that leaves one out: what was
not asked about excludes nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ingest.video.boxes import Box, TargetClass
from ingest.video.synopsis.tubes import Tube

Direction = Literal["left", "right", "up", "down"]
LEAST_WAY_HEIGHTS = 0.5  # a target that went less far, in its own heights, goes nowhere
MOST_PX = 1e5


@dataclass(frozen=True, slots=True)
class TubeSelection:
    """Empty or None: no condition. `area`: pixels of the film; a target is in it where the middle
    of its foot is."""

    least_s: float = 0.0
    kinds: frozenset[TargetClass] = frozenset()
    colours: frozenset[str] = frozenset()
    area: Box | None = None
    directions: frozenset[Direction] = frozenset()

    def tracks(self, tubes: Sequence[Tube], fps: float) -> list[Tube]:
        """Those that fit as far as it is known before pictures were seen. A track that was hidden
        for a while counts as a whole."""
        whole: dict[int, list[Tube]] = {}
        for one in tubes:
            whole.setdefault(one.track, []).append(one)
        return [one for track in whole.values() if self._fits(track, fps) for one in track]

    def coloured(self, tubes: Iterable[Tube]) -> list[Tube]:
        """Those that have one of the colours."""
        return [one for one in tubes if not self.colours or self.colours & one.colours]

    def _fits(self, track: Sequence[Tube], fps: float) -> bool:
        if (track[-1].last - track[0].first + 1) / fps < self.least_s:
            return False
        if self.kinds and track[0].kind not in self.kinds:
            return False
        if self.directions and direction_of(track) not in self.directions:
            return False
        area = self.area
        return area is None or any(_enters(one, area) for one in track)


def direction_of(track: Sequence[Tube]) -> Direction | None:
    """Where it went on the whole, as the picture shows it; None of one that stayed."""
    before, after = track[0].boxes[0], track[-1].boxes[-1]
    dx = float(after[0] + after[2] / 2 - before[0] - before[2] / 2)
    dy = float(after[1] + after[3] - before[1] - before[3])
    if max(abs(dx), abs(dy)) < LEAST_WAY_HEIGHTS * float(track[0].boxes[:, 3].mean()):
        return None
    if abs(dx) >= abs(dy):
        return "right" if dx > 0 else "left"
    return "down" if dy > 0 else "up"


def parse_area(text: str) -> Box:
    """`x,y,w,h`. Raises ValueError."""
    words = text.split(",")
    try:
        x, y, w, h = (float(word) for word in words)
    except ValueError as error:
        raise ValueError(f"{text!r} is no area: x,y,width,height in pixels") from error
    if not all(abs(one) <= MOST_PX for one in (x, y, w, h)) or w <= 0 or h <= 0:
        raise ValueError(f"{text!r} is no area: width and height must be above 0")
    return Box(x, y, w, h)


def _enters(tube: Tube, area: Box) -> bool:
    x = tube.boxes[:, 0] + tube.boxes[:, 2] / 2
    y = tube.boxes[:, 1] + tube.boxes[:, 3]
    inside = (x >= area.x) & (x < area.x + area.w) & (y >= area.y) & (y < area.y + area.h)
    return bool(inside.any())
