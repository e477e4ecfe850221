"""The two curves of quality, sent and valid, over everything of a kind: they part, or keep parting.

In: totals of one settled minute. Out: `Condition`s. Pure. Single devices and servers are judged by
`monitor.models.quality`; this sees what is spread too thinly for them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from monitor.watch.conditions import Condition

GROWING_MINUTES = 5  # a share that rises for so long does not come back by itself
GROWN_SHARE = 0.05  # by so much in this time; less is the noise of a quiet minute


@dataclass(frozen=True, slots=True)
class CurveBounds:
    """`lost_share` of what was sent, for so many minutes; minutes of fewer records say nothing."""

    lost_share: float = 0.2
    minutes: int = 3
    min_sent: int = 20


@dataclass(frozen=True, slots=True)
class MinuteTotal:
    """What all devices of one kind sent in a minute, and what of it was valid."""

    kind: str
    minute_ms: int
    sent: int
    valid: int

    @property
    def lost_share(self) -> float:
        """What cannot be used, as a part of what was sent."""
        return max(0, self.sent - self.valid) / self.sent if self.sent else 0.0


@dataclass(slots=True)
class QualityCurve:
    """One kind. Invariant: `_minutes` are in rising order, the newest GROWING_MINUTES + 1."""

    bounds: CurveBounds
    _minutes: deque[MinuteTotal] = field(default_factory=lambda: deque(maxlen=GROWING_MINUTES + 1))

    def observe(self, total: MinuteTotal) -> Condition | None:
        """The condition by this minute; None for one that was judged, or says nothing."""
        if total.sent < self.bounds.min_sent:
            return None
        if self._minutes and total.minute_ms <= self._minutes[-1].minute_ms:
            return None
        self._minutes.append(total)
        course = "fallen" if self._has_fallen() else "growing" if self._is_growing() else ""
        is_well = total.lost_share < self.bounds.lost_share / 2
        detail = {
            "class": total.kind, "course": course or "well", "sent": str(total.sent),
            "valid": str(total.valid),
        }  # fmt: skip
        is_bad = True if course else False if is_well else None
        return Condition("curve", total.kind, is_bad, 0, detail, "warning")

    def _has_fallen(self) -> bool:
        newest = list(self._minutes)[-self.bounds.minutes :]
        return len(newest) == self.bounds.minutes and all(
            one.lost_share >= self.bounds.lost_share for one in newest
        )

    def _is_growing(self) -> bool:
        shares = [one.lost_share for one in self._minutes]
        rising = all(a < b for a, b in pairwise(shares))
        return len(shares) > GROWING_MINUTES and rising and shares[-1] - shares[0] >= GROWN_SHARE
