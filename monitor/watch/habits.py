"""What is usual for one sender: its records in each hour, and how its gaps are spread. Pure.

A gap is measured in *expected records*: ten minutes in an hour in which a device sends sixty are
ten. So one spread serves day and night, and a gap that reaches from evening into night is judged by
both. The p99 of that spread, divided by an hour's rate, is the p99 of the device's gaps in that
hour.

Memory: a `Habit` is 72 rates, 72 counts of learnt hours and 28 buckets: a third of a kilobyte.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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

_FORM = struct.Struct(f"<{HOUR_CLASSES}f{HOUR_CLASSES}B{BUCKETS}H")  # in the file
HABIT_BYTES = _FORM.size
_RATE, _GAPS = struct.Struct("<H"), struct.Struct(f"<{BUCKETS}H")
_LEARNT_AT = HOUR_CLASSES * _RATE.size  # behind the rates, one byte for each hour
_GAPS_AT = _LEARNT_AT + HOUR_CLASSES
PER_DOUBLING_OF_RATE = 2_600
"""Steps of a rate in memory: 0.03 % of it and one more, up to 38 million records an hour."""


class Habit:
    """All numbers lie in one piece of memory, rates in steps: ten thousand habits are four
    megabytes so, and were eight as three arrays each.

    Invariant: the rate of an hour is a mean of as many whole hours as are learnt of it, and says
    nothing at 0 of them.
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray(_GAPS_AT + _GAPS.size)

    def to_bytes(self) -> bytes:
        """For the watch's own file: rates, counts of learnt hours, buckets."""
        rates = map(self._rate, range(HOUR_CLASSES))
        return _FORM.pack(*rates, *self._data[_LEARNT_AT:_GAPS_AT], *self._gaps())

    @classmethod
    def from_bytes(cls, data: bytes) -> Habit:
        """What `to_bytes` gave. Raises `ValueError` for anything else."""
        if len(data) != HABIT_BYTES:
            raise ValueError(f"a habit has {HABIT_BYTES} bytes, not {len(data)}")
        values = _FORM.unpack(data)
        found = cls()
        for hour, rate in enumerate(values[:HOUR_CLASSES]):
            if not 0 <= rate < math.inf:
                raise ValueError(f"a rate of {rate} records an hour")
            found._set_rate(hour, rate)
        found._data[_LEARNT_AT:_GAPS_AT] = bytes(values[HOUR_CLASSES : 2 * HOUR_CLASSES])
        _GAPS.pack_into(found._data, _GAPS_AT, *values[2 * HOUR_CLASSES :])
        return found

    def learnt(self, hour: int) -> int:
        """How many whole hours of this class are known, 255 at most."""
        return self._data[_LEARNT_AT + hour]

    def _rate(self, hour: int) -> float:
        (steps,) = _RATE.unpack_from(self._data, hour * _RATE.size)
        return float(2.0 ** (steps / PER_DOUBLING_OF_RATE) - 1)

    def _set_rate(self, hour: int, rate: float) -> None:
        steps = min(0xFFFF, round(PER_DOUBLING_OF_RATE * math.log2(1 + rate)))
        _RATE.pack_into(self._data, hour * _RATE.size, steps)

    def _gaps(self) -> tuple[int, ...]:
        return _GAPS.unpack_from(self._data, _GAPS_AT)

    def learn_hour(self, hour: int, records: float) -> None:
        """One whole hour was seen with so many records."""
        known, rate = self.learnt(hour), self._rate(hour)
        weight = max(WEIGHT, 1 / (known + 1))
        self._set_rate(hour, rate + weight * (records - rate))
        self._data[_LEARNT_AT + hour] = min(255, known + 1)

    def learn_gap(self, expected: float, times: int = 1) -> None:
        """So many gaps of this length, in expected records, ended."""
        gaps, times = list(self._gaps()), min(times, MAX_GAPS)
        gaps[_bucket(expected)] += times
        if sum(gaps) > MAX_GAPS:
            gaps = [count // 2 for count in gaps]
        _GAPS.pack_into(self._data, _GAPS_AT, *gaps)

    def mean(self, hour: int) -> float:
        """Records in an hour of this class; 0 where nothing is known."""
        return self._rate(hour) if self.learnt(hour) else 0.0

    def usual(self, hour: int) -> tuple[float, float]:
        """Records an hour of this class, and the variance of that mean: counts of independent
        events in so many hours."""
        if self.learnt(hour):
            return self._known(hour)
        same = [kind * 24 + hour % 24 for kind in range(KINDS_OF_DAY)]
        known = [self._known(c) for c in same if self.learnt(c)]
        mean, variance = min(known, key=lambda one: one[0], default=(0.0, 0.0))
        return UNKNOWN_DAY_SHARE * mean, UNKNOWN_DAY_SHARE**2 * variance

    def _known(self, hour: int) -> tuple[float, float]:
        rate = self._rate(hour)
        return rate, rate / min(self.learnt(hour), RECENT_HOURS)

    @property
    def p99(self) -> float:
        """The p99 of its gaps, in expected records."""
        gaps = self._gaps()
        count = sum(gaps)
        left = count // 100
        for at in range(BUCKETS - 1, -1, -1):
            left -= gaps[at]
            if left < 0:
                usual = EDGES[at]
                return usual if count >= MIN_GAPS else max(usual, ASSUMED_P99)
        return ASSUMED_P99

    def expected(self, begin_ms: int, end_ms: int, classes: HourClasses) -> float:
        """Records that are usual between two moments, by the means."""
        return sum(
            self.mean(hour) * length_ms / HOUR_MS
            for hour, length_ms in _hours(begin_ms, end_ms, classes)
        )

    def due_ms(self, begin_ms: int, factor: float, classes: HourClasses) -> int | None:
        """When a silence that began then has lasted `factor` times the p99; None for never."""
        length_ms = self.due_after_ms([(begin_ms, None)], factor, classes)
        return None if length_ms is None else begin_ms + length_ms

    def due_after_ms(
        self, parts: Iterable[tuple[int, int | None]], factor: float, classes: HourClasses
    ) -> int | None:
        """How long a silence may last that lies in these parts of time, the last without an end."""
        needed, counted, length_ms = factor * self.p99, Reliance(), 0
        for begin_ms, end_ms in parts:
            until_ms = begin_ms + MAX_LOOK_AHEAD_HOURS * HOUR_MS if end_ms is None else end_ms
            for hour, part_ms in _hours(begin_ms, until_ms, classes):
                usual = self.usual(hour)
                after = counted.after(usual, part_ms)
                if after.least >= needed:
                    return length_ms + counted.reaches(needed, usual, part_ms)
                counted = after
                length_ms += part_ms
        return None


class Reliance(NamedTuple):
    """Records that were usual in a time, and the variance of that sum of means.

    The doubts of hours are independent: they add up as squares. Subtracted hour by hour they were
    so much that a device of eight records an hour, known for a day, was not missed for two days.
    """

    mean: float = 0.0
    variance: float = 0.0

    def after(self, usual: tuple[float, float], length_ms: int) -> Reliance:
        """With so much of an hour more."""
        share = length_ms / HOUR_MS
        return Reliance(self.mean + usual[0] * share, self.variance + usual[1] * share * share)

    @property
    def least(self) -> float:
        """What can be relied on: one standard deviation below the mean."""
        return self.mean - math.sqrt(self.variance)

    def reaches(self, needed: float, usual: tuple[float, float], length_ms: int) -> int:
        """The first moment within the length at which it can be relied on so many, which is so at
        its end."""
        low, high = 0, length_ms
        while low < high:
            middle = (low + high) // 2
            if self.after(usual, middle).least >= needed:
                high = middle
            else:
                low = middle + 1
        return high


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
