"""By how much each device's clock is off, as ingest estimates and corrects it. Pure.

In: per device and minute of arrival the least delay from the capture, as the device wrote it, to
the arrival. Out: the offsets to correct by; positive is ahead. Never: a clock, I/O, a row.

Most records arrive in a moment, so the least delay of a minute is the error of the clock and little
more. It is believed when minutes agree: after `CONFIRM_SURE` where no backlog explains it, else
after `CONFIRM`, because the records of a backlog are late, too, but by less in each minute.
The estimate is a value: a batch that is not committed leaves the one before as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from bus.domain.times import HOUR_MS, minute_of
from ingest.normalise.clock import AHEAD_MS, TOLERANCE_MS, ClockLimits

Readings = dict[str, dict[int, int]]
"""Device → minute of arrival → least delay (ms)."""

UNSET_MS = 10 * 365 * 86_400_000  # no record is ten years late: the clock was never set
CONFIRM_SURE, CONFIRM = 3, 10  # minutes that agree
NEVER_MS = 1 << 62
STEP_MS = 500  # a smaller change is not worth another version
KEEP_MINUTES = CONFIRM + 2
KEEP_MS = 2 * HOUR_MS
MAX_NAME = 64  # characters; an address has fewer
MAX_DEVICES = 4_000
"""That are corrected or under suspicion. Beyond that the bus, not a clock, is at fault."""


class DeviceClock(NamedTuple):
    """One device. `off_ms`: 0 is not corrected. `minutes`: the newest, ascending, each with its
    least delay."""

    off_ms: int = 0
    minutes: tuple[tuple[int, int], ...] = ()


class ClockEstimates(msgspec.Struct, frozen=True):
    """All devices that are corrected or under suspicion. `limits.offsets`: what a batch is judged
    with; 0 where a device is only suspected.

    Invariant: at most `MAX_DEVICES`; `version` differs where the offsets do, in one process.
    """

    limits: ClockLimits
    devices: Mapping[str, DeviceClock] = {}
    version: int = 0

    @classmethod
    def create(cls, limits: ClockLimits, offsets: Mapping[str, int]) -> ClockEstimates:
        """As a store has kept it; the minutes that confirm it begin again."""
        devices = {camera_ip: DeviceClock(off_ms) for camera_ip, off_ms in offsets.items()}
        return cls(limits._replace(offsets=dict(offsets)), devices)

    @property
    def corrected(self) -> dict[str, int]:
        """The offsets of devices that are corrected, for a store to keep."""
        return {camera_ip: off_ms for camera_ip, off_ms in self.limits.offsets.items() if off_ms}

    def advanced(self, readings: Readings) -> ClockEstimates:
        """After a batch; the same value if nothing has changed."""
        if not readings:
            return self
        devices = dict(self.devices)
        for camera_ip, minutes in bounded(readings, self.limits).items():
            before = devices.get(camera_ip)
            if before is None and len(devices) >= MAX_DEVICES:
                continue
            clock = _judged(_merged(before or DeviceClock(), minutes), self.limits)
            if clock.off_ms or _is_suspect(clock, self.limits):
                devices[camera_ip] = clock
            else:
                devices.pop(camera_ip, None)
        offsets = {camera_ip: clock.off_ms for camera_ip, clock in devices.items()}
        if offsets == self.limits.offsets:
            return ClockEstimates(self.limits, devices, self.version)
        return ClockEstimates(self.limits._replace(offsets=offsets), devices, self.version + 1)

    def changed_since(self, before: ClockEstimates) -> dict[str, int] | None:
        """What is corrected now; None if it is as before."""
        if self.limits.offsets is before.limits.offsets or self.corrected == before.corrected:
            return None
        return self.corrected


class DelayReader:
    """Reads from the records of a batch what an estimate needs: of healthy devices, which are most,
    nothing. (The first odd record of a device may not be the quickest of its minute; from the next
    batch on all of the device's are read, and no single minute is believed.)"""

    def __init__(self, limits: ClockLimits) -> None:
        self.readings: Readings = {}
        self._offsets = limits.offsets
        self._most_ms = limits.behind_ms or NEVER_MS

    def is_read(self, camera_ip: str, delay_ms: int) -> bool:
        """Whether a record of this delay from the capture, as the device wrote it, is wanted."""
        return not -AHEAD_MS <= delay_ms <= self._most_ms or camera_ip in self._offsets

    def add(self, camera_ip: str, received_at_ms: int, delay_ms: int) -> None:
        """One that is wanted, and whose arrival somebody else than its sender has noted."""
        if 0 < len(camera_ip) <= MAX_NAME:
            minutes = self.readings.setdefault(camera_ip, {})
            minute_ms = minute_of(received_at_ms)
            minutes[minute_ms] = min(minutes.get(minute_ms, delay_ms), delay_ms)


def merged_readings(parts: Iterable[Readings]) -> Readings:
    """Of each device and minute the least."""
    merged: Readings = {}
    for part in parts:
        for camera_ip, minutes in part.items():
            into = merged.setdefault(camera_ip, {})
            for minute_ms, delay_ms in minutes.items():
                into[minute_ms] = min(into.get(minute_ms, delay_ms), delay_ms)
    return merged


def bounded(readings: Readings, limits: ClockLimits) -> Readings:
    """At most `MAX_DEVICES`, those that are known already first: all are late when the bus was
    away."""
    if len(readings) <= MAX_DEVICES:
        return readings
    first = sorted(readings, key=lambda camera_ip: (camera_ip not in limits.offsets, camera_ip))
    return {camera_ip: readings[camera_ip] for camera_ip in first[:MAX_DEVICES]}


def _merged(clock: DeviceClock, minutes: Mapping[int, int]) -> DeviceClock:
    there = dict(clock.minutes)
    for minute_ms, delay_ms in minutes.items():
        there[minute_ms] = min(there.get(minute_ms, delay_ms), delay_ms)
    newest_ms = max(there)
    kept = sorted((m, d) for m, d in there.items() if newest_ms - m <= KEEP_MS)
    return clock._replace(minutes=tuple(kept[-KEEP_MINUTES:]))


def _judged(clock: DeviceClock, limits: ClockLimits) -> DeviceClock:
    """With the offset that the minutes before the newest, which goes on, agree on."""
    agreeing = _agreeing([delay_ms for _, delay_ms in clock.minutes[:-1]])
    if not agreeing:
        return clock
    least_ms = min(agreeing)
    is_usual = _is_usual(least_ms, clock.off_ms, limits)
    is_unset = -clock.off_ms < UNSET_MS <= least_ms
    is_sure = is_usual or is_unset or least_ms <= -clock.off_ms
    if len(agreeing) < (CONFIRM_SURE if is_sure else CONFIRM):
        return clock
    off_ms = 0 if is_usual else -least_ms
    is_step = abs(off_ms - clock.off_ms) >= STEP_MS
    return clock._replace(off_ms=off_ms) if is_step else clock


def _agreeing(delays_ms: list[int]) -> list[int]:
    """The newest that lie within the tolerance of one another, up to the first that does not."""
    found: list[int] = []
    least = most = delays_ms[-1] if delays_ms else 0
    for delay_ms in reversed(delays_ms):
        least, most = min(least, delay_ms), max(most, delay_ms)
        if most - least > TOLERANCE_MS:
            break
        found.append(delay_ms)
    return found


def _is_suspect(clock: DeviceClock, limits: ClockLimits) -> bool:
    """Whether one of its two newest minutes is no usual one: the very newest is not over."""
    return not all(_is_usual(delay_ms, 0, limits) for _, delay_ms in clock.minutes[-2:])


def _is_usual(delay_ms: int, off_ms: int, limits: ClockLimits) -> bool:
    """Whether a delay says nothing against a clock. One that is corrected must be better than
    another, so that it is not corrected by turns."""
    share = 2 if off_ms else 1
    return -AHEAD_MS // share <= delay_ms <= (limits.behind_ms or NEVER_MS) // share
