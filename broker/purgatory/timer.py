"""The one timer of a broker: drives the timing wheel with the clock.

Calls each callback once after its delay, on the loop's thread. There is no second wheel: delayed
produce, fetch, join and session timeouts all wait here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle, monotonic_ms
from broker.purgatory.wheel import TimingWheel, WheelEntry

Callback = Callable[[], None]


class TimerEntry:
    """A waiting callback. ``cancel`` frees its memory at once."""

    __slots__ = ("_entry", "_wheel")

    def __init__(self, wheel: TimingWheel, entry: WheelEntry | None) -> None:
        self._wheel = wheel
        self._entry = entry

    def cancel(self) -> None:
        entry, self._entry = self._entry, None
        if entry is not None and self._wheel.cancel(entry):
            entry.payload = None


class Timer:
    """Calls back at deadlines.

    Invariant: while entries wait, ``_wake_at_ms`` is not after any of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wheel = TimingWheel(monotonic_ms(self._clock))
        self._handle: TimerHandle | None = None
        self._wake_at_ms = math.inf
        self._stopped = False

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, delay_ms: int, callback: Callback) -> TimerEntry:
        """Call ``callback`` once, when ``delay_ms`` milliseconds (at least one) have passed."""
        # One tick more than asked: the present millisecond is already partly gone. So the wheel,
        # which is never ahead of the clock, always takes the entry.
        deadline_ms = monotonic_ms(self._clock) + max(delay_ms, 0) + 1
        entry = self._wheel.add(deadline_ms, callback)
        if deadline_ms < self._wake_at_ms:
            self._arm(deadline_ms)
        return TimerEntry(self._wheel, entry)

    def stop(self) -> None:
        """Stop calling back."""
        self._stopped = True
        self._disarm()

    def _arm(self, at_ms: int) -> None:
        self._disarm()
        if self._stopped:
            return
        self._wake_at_ms = at_ms
        delay_s = max(at_ms / 1000 - self._clock.monotonic(), 0.0)
        self._handle = self._clock.call_later(delay_s, self._on_time)

    def _disarm(self) -> None:
        handle, self._handle = self._handle, None
        self._wake_at_ms = math.inf
        if handle is not None:
            handle.cancel()

    def _on_time(self) -> None:
        self._handle = None
        self._wake_at_ms = math.inf
        for entry in self._wheel.advance(monotonic_ms(self._clock)):
            self._call(entry)
        upcoming_ms = self._wheel.next_ms()
        if upcoming_ms is not None and upcoming_ms < self._wake_at_ms:
            self._arm(upcoming_ms)

    def _call(self, entry: WheelEntry) -> None:
        callback, entry.payload = entry.payload, None
        callback()  # what it raises ends the process, as that of any timer
