"""When a recorded message is due, by its capture time.

In: capture times and the time as values. Out: the moment at which to send. Never: clock, sleep.

Own pace means that the file's time flows as it did. Files are not sorted to the millisecond, and
some cameras live in 1970: a time before the furthest so far is due at once, and a leap longer than
`LONGEST_GAP_MS` is a hole in the recording or a liar's clock, which is not waited for.
"""

from __future__ import annotations

LONGEST_GAP_MS = 10 * 60_000


class ReplaySchedule:
    """`speed` 1.0 is the own pace, 60.0 an hour in a minute; None as fast as possible."""

    def __init__(self, speed: float | None, start_ms: int) -> None:
        if speed is not None and speed <= 0:
            raise ValueError("speed must be above 0")
        self._speed = speed
        self._due_ms = float(start_ms)
        self._furthest_ms: int | None = None

    def due_ms(self, captured_at_ms: int) -> float:
        """When the next message of the file is due; never earlier than the one before."""
        if self._speed is None or captured_at_ms <= 0:
            return self._due_ms
        if self._furthest_ms is None:
            self._furthest_ms = captured_at_ms
        gap_ms = captured_at_ms - self._furthest_ms
        if gap_ms > 0:
            self._furthest_ms = captured_at_ms
            if gap_ms <= LONGEST_GAP_MS:
                self._due_ms += gap_ms / self._speed
        return self._due_ms
