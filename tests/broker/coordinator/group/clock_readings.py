"""Clock readings as the groups of these tests meet them."""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading

WALL_MS = 1_760_000_000_000


def at(monotonic_ms: int, wall_error_ms: int = 0) -> ClockReading:
    """A reading; the two clocks have nothing to do with each other."""
    return ClockReading(WALL_MS + monotonic_ms + wall_error_ms, monotonic_ms)
