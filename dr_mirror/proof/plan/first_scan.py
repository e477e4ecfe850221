"""Where what is recent begins in partitions that the proof sees for the first time. Pure.

In: what the target holds of each, and from which offset on its records are young by their own
times. Out: the offset from which on each is compared in every interval. Never: more than a bound of
bytes for all of a site together: the newest have it, and what is older waits for the scrub.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bus.client.model import TopicPartition

RECENT_BYTES = 1_000_000_000
"""Of one replica of every partition of a site: read within some seconds, in every interval for an
hour."""
GUESSED_RECORD_BYTES = 1_000
"""Where the broker does not say how large a replica is."""


@dataclass(frozen=True, slots=True)
class FirstScan:
    """One partition: the target holds [start, end) in `size_bytes` (-1: not known), and the first
    record that is young is at `young_from`."""

    partition: TopicPartition
    start: int
    end: int
    young_from: int
    size_bytes: int

    @property
    def young(self) -> int:
        """Offsets from the first young record on."""
        return max(self.end - max(self.young_from, self.start), 0)

    @property
    def young_bytes(self) -> float:
        """By the mean size of its records."""
        held = self.end - self.start
        mean = self.size_bytes / held if self.size_bytes >= 0 and held else GUESSED_RECORD_BYTES
        return self.young * mean


def recent_from(scans: Sequence[FirstScan], max_bytes: float) -> dict[TopicPartition, int]:
    """Each has the same share of what is young in it, the newest, so that all fits."""
    young_bytes = sum(one.young_bytes for one in scans)
    share = min(max_bytes / young_bytes, 1.0) if young_bytes > 0 else 1.0
    return {one.partition: one.end - int(one.young * share) for one in scans}


def newest_from(end: int, mean_bytes: float, partitions: int) -> int:
    """From where on what a partition got of late counts as recent though its records call
    themselves old: a device's clock is wrong, or a backlog of days is being copied, of which
    reading all again in every interval would keep what is fresh waiting."""
    return max(end - int(RECENT_BYTES / max(partitions, 1) / max(mean_bytes, 1.0)), 0)


def budget_of(scans: int, waiting: int, left_bytes: float) -> float:
    """What these may have while so many more are yet to be looked at."""
    return max(left_bytes, 0.0) * scans / max(scans + waiting, 1)
