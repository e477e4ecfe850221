"""Whether a capture time can be true, as far as the arrival of its record tells. Pure.

In: capture and arrival times, limits, what is known of the device's clock. Out: how far it is off
for this record. Never: the clock.
A capture before its arrival is late, not wrong (a camera back from an outage sends true old
records); a capture well after its arrival, or older than anything that is kept, is a clock fault.
Where the device's offset is known (`device_clocks`), the capture is corrected by it.
The time that a producer gives its message is an arrival only where the topic could still hold the
message by it; else it is the producer's clock that is wrong, and the capture stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bus.domain.times import DAY_MS, MINUTE_MS, minute_of
from bus.settings import SiteSettings

# Clocks that were never set begin in 1970, 1980 or 2000; no record of this bus is as old as this.
FIRST_TRUE_MS = 978_307_200_000  # 2001-01-01 UTC
AHEAD_MS = 2_000  # less is the usual error of a synchronised clock
NO_RETENTION_MS = 30 * DAY_MS  # for topics that keep for ever
TOLERANCE_MS = 3_000  # by which the least delays of a device's minutes differ


class ClockLimits(NamedTuple):
    """How far ahead of the arrival a capture may be, and how old (0: as old as it likes); from
    which offset on a clock that is behind is corrected (0: never); offsets by device (positive is
    ahead; 0 where one is only suspected), as far as they are known. `now_ms` is the reader's
    clock, fixed for all of a batch (0: not known): no capture stands that lies ahead of it."""

    ahead_ms: int = 10 * MINUTE_MS
    keep_ms: int = 0
    behind_ms: int = 30_000
    offsets: Mapping[str, int] = {}
    now_ms: int = 0


DEFAULT = ClockLimits()


def clock_limits(site: SiteSettings) -> ClockLimits:
    """The limits of a site."""
    return ClockLimits(
        site.clock_ahead_minutes * MINUTE_MS, site.keep_days * DAY_MS,
        site.clock_behind_seconds * 1000,
    )  # fmt: skip


def at_minute(limits: ClockLimits, now_ms: int) -> ClockLimits:
    """For a batch that is read now: the next full minute, so that what is sent to executors changes
    once a minute at most."""
    return limits._replace(now_ms=minute_of(now_ms) + MINUTE_MS)


def is_arrival(stated_ms: int, captured_at_ms: int, retention_ms: int, limits: ClockLimits) -> bool:
    """Whether the time a producer gave its message can be that of its arrival; `retention_ms` is
    how long the topic keeps.

    A record that lies further before its capture than that would be deleted by the time of its
    capture: so one of the two is wrong. A capture ahead of the reader's clock is the wrong one
    (cameras of 2099), else it is the producer's time. True times are never taken for untrue ones
    while the topic holds the record, whenever it is read.
    """
    if stated_ms < 0 or not limits.now_ms:
        return True  # Kafka's word for none
    if captured_at_ms > limits.now_ms + limits.ahead_ms:
        return True
    most_ms = (retention_ms if retention_ms > 0 else NO_RETENTION_MS) + limits.ahead_ms
    return captured_at_ms - stated_ms <= most_ms + MINUTE_MS  # that of `at_minute`


def clock_off_ms(
    captured_at_ms: int,
    received_at_ms: int,
    limits: ClockLimits,
    *,
    replayed: bool = False,
    camera_ip: str = "",
) -> int:
    """By how much the capture is corrected: by the offset of the device's clock where that is known
    and makes it possible; by all that it differs from the arrival where it is a clock fault
    otherwise; else 0.

    What is sent again from files is old on purpose. An arrival that is itself unknown or untrue
    (a producer on Kafka with such a clock) proves nothing.
    """
    if received_at_ms < FIRST_TRUE_MS:
        return 0
    known_ms = 0 if replayed else limits.offsets.get(camera_ip, 0)
    if known_ms:
        off_ms = _known_off_ms(captured_at_ms - received_at_ms, known_ms)
        if off_ms and _is_possible(captured_at_ms - off_ms, received_at_ms, limits):
            return off_ms
    if _is_possible(captured_at_ms, received_at_ms, limits, replayed=replayed):
        return 0
    return captured_at_ms - received_at_ms


def _is_possible(
    captured_at_ms: int, received_at_ms: int, limits: ClockLimits, *, replayed: bool = False
) -> bool:
    off_ms = captured_at_ms - received_at_ms
    too_old = bool(limits.keep_ms) and not replayed and -off_ms > limits.keep_ms
    return off_ms <= limits.ahead_ms and not too_old and captured_at_ms >= FIRST_TRUE_MS


def _known_off_ms(ahead_ms: int, known_ms: int) -> int:
    """The offset for a capture that is so far ahead of its arrival. 0 where the clock has been set
    since: a record of one that is behind is late by at least that; one of a clock that is well
    ahead is hardly ever late. Nothing is captured after its arrival."""
    if known_ms < 0 and -ahead_ms < -known_ms - TOLERANCE_MS:
        return 0
    if known_ms >= MINUTE_MS and ahead_ms <= AHEAD_MS:
        return 0
    return max(known_ms, ahead_ms)
