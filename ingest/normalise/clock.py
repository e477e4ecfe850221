"""Whether a capture time can be true, as far as the arrival of its record tells. Pure.

In: capture and arrival times, limits. Out: how far the device's clock is off. Never: the clock.
A capture before its arrival is late, not wrong (a camera back from an outage sends true old
records); a capture well after its arrival, or older than anything that is kept, is a clock fault.
"""

from __future__ import annotations

from typing import NamedTuple

from bus.domain.times import DAY_MS, MINUTE_MS
from bus.settings import SiteSettings

# Clocks that were never set begin in 1970, 1980 or 2000; no record of this bus is as old as this.
FIRST_TRUE_MS = 978_307_200_000  # 2001-01-01 UTC


class ClockLimits(NamedTuple):
    """How far ahead of the arrival a capture may be, and how old (0: as old as it likes)."""

    ahead_ms: int = 10 * MINUTE_MS
    keep_ms: int = 0


DEFAULT = ClockLimits()


def clock_limits(site: SiteSettings) -> ClockLimits:
    """The limits of a site."""
    return ClockLimits(site.clock_ahead_minutes * MINUTE_MS, site.keep_days * DAY_MS)


def clock_off_ms(
    captured_at_ms: int, received_at_ms: int, limits: ClockLimits, *, replayed: bool = False
) -> int:
    """Capture minus arrival where that is a clock fault, else 0.

    What is sent again from files is old on purpose. An arrival that is itself unknown or untrue
    (a producer on Kafka with such a clock) proves nothing.
    """
    if received_at_ms < FIRST_TRUE_MS:
        return 0
    off_ms = captured_at_ms - received_at_ms
    too_old = bool(limits.keep_ms) and not replayed and -off_ms > limits.keep_ms
    if off_ms > limits.ahead_ms or too_old or captured_at_ms < FIRST_TRUE_MS:
        return off_ms
    return 0
