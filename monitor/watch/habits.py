"""What is usual for one sender: its records in each hour, and how its gaps are spread. Pure.

A gap is measured in *expected records*: ten minutes in an hour in which a device sends sixty are
ten. So one spread serves day and night, and a gap that reaches from evening into night is judged by
both. The p99 of that spread, divided by an hour's rate, is the p99 of the device's gaps in that
hour.

Memory: a `Habit` is 72 rates, 72 counts of learnt hours and 28 buckets: under a kilobyte.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from bus.domain.times import HOUR_MS
from monitor.watch.watch_clock import HOUR_CLASSES, KINDS_OF_DAY, HourClasses

BUCKETS = 28
PER_DOUBLING = 4
EDGES = tuple(0.5 * 2 ** (n / PER_DOUBLING) for n in range(BUCKETS))
"""Upper edges of the spread, in expected records: 0.5 to 54; what is longer counts in the last."""

ASSUMED_P99 = 3 * math.log(100)
"""The p99 of gaps between platoons of three that do not know of each other, in expected records:
what is assumed of a device until it has shown MIN_GAPS gaps of its own."""
MIN_GAPS = 200
MAX_GAPS = 8_000  # then all counts are halved: what was a month ago weighs less than this week
RECENT_HOURS = 9  # hours of one class that the mean looks back on, as its weight below says
WEIGHT = 2 / (RECENT_HOURS + 1)
UNKNOWN_DAY_SHARE = 0.25
"""A kind of day not yet seen is taken to be a quarter as busy as the quietest one known."""
MAX_LOOK_AHEAD_HOURS = 14 * 24  # a sender without expectations for so long has none

_FORM = struct.Struct(f"<{HOUR_CLASSES}f{HOUR_CLASSES}B{BUCKETS}H")


@dataclass(slots=True)
class Habit:
    """Invariant: `rates[c]` is a mean of `learnt[c]` whole hours, and says nothing at 0 of them."""

    rates: array[float] = field(default_factory=lambda: array("f", bytes(4 * HOUR_CLASSES)))
    learnt: bytearray = field(default_factory=lambda: bytearray(HOUR_CLASSES))
    gaps: array[int] = field(default_factory=lambda: array("H", bytes(2 * BUCKETS)))
    gap_count: int = 0

    def to_bytes(self) -> bytes:
        """For the watch's own file."""
        return _FORM.pack(*self.rates, *self.learnt, *self.gaps)

    @classmethod
    def from_bytes(cls, data: bytes) -> Habit:
        """What `to_bytes` gave. Raises `ValueError` for anything else."""
        if len(data) != _FORM.size:
            raise ValueError(f"a habit has {_FORM.size} bytes, not {len(data)}")
        values = _FORM.unpack(data)
        gaps = array("H", values[2 * HOUR_CLASSES :])
        return cls(
            array("f", values[:HOUR_CLASSES]),
            bytearray(values[HOUR_CLASSES : 2 * HOUR_CLASSES]),
            gaps,
            sum(gaps),
        )

    def learn_hour(self, hour: int, records: float) -> None:
        """One whole hour was seen with so many records."""
        known = self.learnt[hour]
        weight = max(WEIGHT, 1 / (known + 1))
        self.rates[hour] += weight * (records - self.rates[hour])
        self.learnt[hour] = min(255, known + 1)

    def learn_gap(self, expected: float, times: int = 1) -> None:
        """So many gaps of this length, in expected records, ended."""
        self.gaps[_bucket(expected)] += times
        self.gap_count += times
        if self.gap_count > MAX_GAPS:
            for at in range(BUCKETS):
                self.gaps[at] //= 2
            self.gap_count = sum(self.gaps)

    def mean(self, hour: int) -> float:
        """Records in an hour of this class; 0 where nothing is known."""
        return self.rates[hour] if self.learnt[hour] else 0.0

    def sure(self, hour: int) -> float:
        """What can be relied on in an hour of this class: the mean less its own uncertainty."""
        if self.learnt[hour]:
            return _less_doubt(self.rates[hour], self.learnt[hour])
        same = [kind * 24 + hour % 24 for kind in range(KINDS_OF_DAY)]
        known = [_less_doubt(self.rates[c], self.learnt[c]) for c in same if self.learnt[c]]
        return UNKNOWN_DAY_SHARE * min(known, default=0.0)

    @property
    def p99(self) -> float:
        """The p99 of its gaps, in expected records."""
        left = self.gap_count // 100
        for at in range(BUCKETS - 1, -1, -1):
            left -= self.gaps[at]
            if left < 0:
                usual = EDGES[at]
                return usual if self.gap_count >= MIN_GAPS else max(usual, ASSUMED_P99)
        return ASSUMED_P99

    def expected(self, begin_ms: int, end_ms: int, classes: HourClasses) -> float:
        """Records that are usual between two moments, by the means."""
        return sum(
            self.mean(hour) * length_ms / HOUR_MS
            for hour, length_ms in _hours(begin_ms, end_ms, classes)
        )

    def due_ms(self, begin_ms: int, factor: float, classes: HourClasses) -> int | None:
        """When a silence that began then has lasted `factor` times the p99; None for never."""
        left = factor * self.p99
        end_ms = begin_ms + MAX_LOOK_AHEAD_HOURS * HOUR_MS
        at_ms = begin_ms
        for hour, length_ms in _hours(begin_ms, end_ms, classes):
            sure = self.sure(hour)
            if sure * length_ms >= left * HOUR_MS:
                return at_ms + math.ceil(left * HOUR_MS / sure) if sure else at_ms
            left -= sure * length_ms / HOUR_MS
            at_ms += length_ms
        return None


def _less_doubt(mean: float, hours: int) -> float:
    """One standard deviation of the mean below it, for counts of independent events."""
    return max(0.0, mean - math.sqrt(mean / min(hours, RECENT_HOURS)))


def _bucket(expected: float) -> int:
    if expected <= EDGES[0]:
        return 0
    return min(BUCKETS - 1, math.ceil(PER_DOUBLING * math.log2(expected / EDGES[0]) - 1e-9))


def _hours(begin_ms: int, end_ms: int, classes: HourClasses) -> Iterator[tuple[int, int]]:
    """The parts of whole hours between two moments: class and length."""
    while begin_ms < end_ms:
        next_ms = min(end_ms, (begin_ms // HOUR_MS + 1) * HOUR_MS)
        yield classes.at(begin_ms), next_ms - begin_ms
        begin_ms = next_ms
