"""How far a device's clock is off, how it drifts and when it jumped, as its latencies tell.

In: latency cells of one device by minute. Out: the estimate. Never: a clock, I/O.

Most records take their way in a moment, so the least latency of a minute is the clock's error and
little more: it stays the same from minute to minute (a level), creeps (drift) or steps (a jump).
The records of a backlog are late, too, but by less in each minute, so they form no level. A latency
that no backlog explains is believed after a few minutes; any other after so many minutes that even
a backlog that is sent at twice the speed would have left its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from bus.contracts.meters import LatencyCell
from bus.domain.times import MINUTE_MS
from monitor.models.clock_faults import AHEAD_MS, UNSET_MS
from monitor.models.histogram import upper_ms

BEHIND_MS = 10_000  # less is a slow way as well
TOLERANCE_MS = 1_000
MAX_NOISE_MS = 10_000
CONFIRM_SURE, CONFIRM = 3, 10  # minutes that make a level
RECENT = 10  # minutes whose least latency is the level's present one
MAX_DRIFT_PPM = 1_000  # real clocks have fewer than two hundred; what creeps faster is a backlog
DRIFT_MINUTES = 30  # a line through fewer says nothing
DRIFT_ERROR_PPM = 50  # a drift that is known no better is not told
LEAST_JUMP_MS = 2_000


class LeastLatency(NamedTuple):
    """The least latency of a minute, known to half of `width_ms` on either side."""

    minute_ms: int
    least_ms: int
    width_ms: int = 1


class Jump(NamedTuple):
    """When a clock was set, within its minute; by how much: forwards is positive."""

    at_ms: int
    by_ms: int


class ClockEstimate(NamedTuple):
    """Positive is ahead, or too fast. `minutes` agree since `since_ms`. No drift: not known, since
    the time was too short or the latencies too coarse (3 % of them)."""

    offset_ms: int
    drift_ppm: float | None
    jumps: tuple[Jump, ...]
    since_ms: int
    minutes: int

    @property
    def is_off(self) -> bool:
        """Whether the offset is more than the way of a record explains."""
        return self.offset_ms >= AHEAD_MS or self.offset_ms <= -BEHIND_MS


def readings_of(cells: Iterable[LatencyCell]) -> list[LeastLatency]:
    """Of the cells of one device, whatever its kinds of data and districts."""
    least: dict[int, int] = {}
    for cell in cells:
        if cell.buckets:
            bucket = min(cell.buckets)
            least[cell.minute_ms] = min(least.get(cell.minute_ms, bucket), bucket)
    return [_reading(minute_ms, bucket) for minute_ms, bucket in sorted(least.items())]


def _reading(minute_ms: int, bucket: int) -> LeastLatency:
    most_ms = upper_ms(bucket)
    width_ms = most_ms - upper_ms(bucket - 1)
    return LeastLatency(minute_ms, most_ms - width_ms // 2, width_ms)


def estimate(
    readings: Sequence[LeastLatency], *, least_jump_ms: int = LEAST_JUMP_MS
) -> ClockEstimate | None:
    """Of readings in their order; None: no minutes agree."""
    levels = _levels(readings, _tolerance_ms(readings))
    if not levels:
        return None
    jumps = []
    for before, after in pairwise(levels):
        by_ms = _least(before[-RECENT:]) - _least(after[:RECENT])
        if abs(by_ms) >= least_jump_ms:
            jumps.append(Jump(after[0].minute_ms, by_ms))
    last = levels[-1]
    return ClockEstimate(
        -_least(last[-RECENT:]), _drift_ppm(last), tuple(jumps), last[0].minute_ms, len(last)
    )


def _levels(readings: Sequence[LeastLatency], tolerance_ms: float) -> list[list[LeastLatency]]:
    """The stretches of readings that agree; what agrees with nothing is in none."""
    levels: list[list[LeastLatency]] = []
    waiting: list[LeastLatency] = []
    for one in readings:
        if levels and _is_of(levels[-1], one, tolerance_ms):
            levels[-1].append(one)
            waiting = []
            continue
        if waiting and not _agree(waiting[0], one, tolerance_ms):
            waiting = []
        waiting.append(one)
        rises = bool(levels) and waiting[0].least_ms > _least(levels[-1][-RECENT:])
        if len(waiting) >= _confirmed_after(waiting, tolerance_ms, rises=rises):
            levels.append(waiting)
            waiting = []
    return levels


def _is_of(level: list[LeastLatency], one: LeastLatency, tolerance_ms: float) -> bool:
    gap = min((one.minute_ms - level[-1].minute_ms) / MINUTE_MS, 60)
    crept_ms = gap * MAX_DRIFT_PPM * MINUTE_MS / 1e6
    recent = level[-RECENT:]
    wide_ms = 2 * max(one.width_ms, recent[-1].width_ms)
    return abs(one.least_ms - _least(recent)) <= tolerance_ms + crept_ms + wide_ms


def _agree(first: LeastLatency, one: LeastLatency, tolerance_ms: float) -> bool:
    return abs(one.least_ms - first.least_ms) <= tolerance_ms + 2 * first.width_ms


def _confirmed_after(waiting: list[LeastLatency], tolerance_ms: float, *, rises: bool) -> int:
    """Minutes: few for what only a clock explains, and for latencies that are as usual again."""
    first = waiting[0]
    usual = not rises and max(one.least_ms for one in waiting) <= BEHIND_MS
    if usual or first.least_ms >= UNSET_MS:
        return CONFIRM_SURE
    crossed = (3 * first.width_ms + tolerance_ms) / MINUTE_MS
    return max(CONFIRM, int(crossed) + 2)


def _tolerance_ms(readings: Sequence[LeastLatency]) -> float:
    """By how much the readings of a level differ: neighbours, whatever jumps lie between others.
    The mean of two neighbours takes out what falls or rises evenly, as a backlog does."""
    beside = [
        abs(one.least_ms - (before.least_ms + after.least_ms) / 2)
        for before, one, after in zip(readings, readings[1:], readings[2:], strict=False)
    ]
    noise_ms = min(median(beside), MAX_NOISE_MS) if beside else 0
    return max(TOLERANCE_MS, 3 * noise_ms)


def _least(readings: Sequence[LeastLatency]) -> int:
    return min(one.least_ms for one in readings)


def _drift_ppm(level: Sequence[LeastLatency]) -> float | None:
    """Of the line of least squares; how wide the buckets are bounds what it can tell."""
    span_ms = level[-1].minute_ms - level[0].minute_ms
    if len(level) < DRIFT_MINUTES or span_ms < DRIFT_MINUTES * MINUTE_MS:
        return None
    if max(one.width_ms for one in level) / span_ms * 1e6 > DRIFT_ERROR_PPM:
        return None
    xs = [one.minute_ms - level[0].minute_ms for one in level]
    ys = [one.least_ms for one in level]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    left_ms = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    error = (left_ms / len(xs) / spread) ** 0.5
    if 2 * error * 1e6 > DRIFT_ERROR_PPM or abs(slope) * 1e6 > MAX_DRIFT_PPM:
        return None
    return round(-slope * 1e6, 1)
