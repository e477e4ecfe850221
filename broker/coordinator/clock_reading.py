"""Both clocks at one moment, as a group needs them.

The wall clock, which operators may set, is stored and shown; deadlines use the monotonic clock: a
wall clock set back by minutes would delay a rebalance for as long.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.clock.port import Clock, monotonic_ms


class ClockReading(NamedTuple):
    """`wall_ms` since 1970 UTC is stored and shown; `monotonic_ms` says when something is over."""

    wall_ms: int
    monotonic_ms: int


def read_clock(clock: Clock) -> ClockReading:
    """Now."""
    return ClockReading(clock.now_ms(), monotonic_ms(clock))
