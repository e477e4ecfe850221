"""Whether a capture time can be true, as far as the arrival of its record tells. Pure.

In: capture and arrival times, limits, what is known of the device's clock. Out: how far it is off
for this record. Never: the clock.
A capture before its arrival is late, not wrong (a camera back from an outage sends true old
records); a capture well after its arrival, or older than anything that is kept, is a clock fault.
Where the device's offset is known (`device_clocks`), the capture is corrected by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bus.domain.times import DAY_MS, MINUTE_MS
from bus.settings import SiteSettings

# Clocks that were never set begin in 1970, 1980 or 2000; no record of this bus is as old as this.
FIRST_TRUE_MS = 978_307_200_000  # 2001-01-01 UTC
AHEAD_MS = 2_000  # less is the usual error of a synchronised clock
TOLERANCE_MS = 3_000  # by which the least delays of a device's minutes differ


class ClockLimits(NamedTuple):
    """How far ahead of the arrival a capture may be, and how old (0: as old as it likes); from
    which offset on a clock that is behind is corrected (0: never); offsets by device (positive is
    ahead; 0 where one is only suspected), as far as they are known."""

    ahead_ms: int = 10 * MINUTE_MS
    keep_ms: int = 0
    behind_ms: int = 30_000
    offsets: Mapping[str, int] = {}


DEFAULT = ClockLimits()


def clock_limits(site: SiteSettings) -> ClockLimits:
    """The limits of a site."""
    return ClockLimits(
        site.clock_ahead_minutes * MINUTE_MS, site.keep_days * DAY_MS,
        site.clock_behind_seconds * 1000,
    )  # fmt: skip


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
