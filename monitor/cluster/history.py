"""The last hours of a cluster in a ring (pure): how many partitions were unwell when.

In: pictures and the events between them. Out: curves for a chart, the newest events.
Never: more than SAMPLES samples and MAX_EVENTS events.
"""

from __future__ import annotations

from collections import deque

import msgspec

from monitor.cluster.events import ClusterEvent, events
from monitor.cluster.snapshot import ClusterSnapshot

SAMPLES = 3_600
"""One a second for the last hour: what an operator looks back on after waking up."""

MAX_EVENTS = 1_000
"""A night of a broker that comes and goes every minute."""


class Sample(msgspec.Struct, frozen=True):
    """One look in numbers."""

    at_ms: int
    alive: int
    under_replicated: int
    offline: int


class ClusterHistory:
    """What was seen, newest last."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.events: deque[ClusterEvent] = deque(maxlen=MAX_EVENTS)
        self.last: ClusterSnapshot | None = None
        self._number = 0

    def add(self, now: ClusterSnapshot) -> list[ClusterEvent]:
        """One more look; what is new since the one before."""
        new = [self._numbered(event) for event in events(self.last, now)]
        self.events.extend(new)
        self.samples.append(
            Sample(now.taken_at_ms, now.alive, now.under_replicated, now.offline)
        )
        self.last = now
        return new

    def _numbered(self, event: ClusterEvent) -> ClusterEvent:
        self._number += 1
        return msgspec.structs.replace(event, number=self._number)

    def curves(self) -> dict[str, list[list[int]]]:
        """By name: [time, value]; a step only where the value changes, and both ends."""
        return {
            "under_replicated": _steps([(s.at_ms, s.under_replicated) for s in self.samples]),
            "offline": _steps([(s.at_ms, s.offline) for s in self.samples]),
        }


def _steps(points: list[tuple[int, int]]) -> list[list[int]]:
    kept: list[list[int]] = []
    for at, (moment, value) in enumerate(points):
        same = kept and kept[-1][1] == value
        if same and 0 < at < len(points) - 1 and points[at + 1][1] == value:
            continue
        kept.append([moment, value])
    return kept
