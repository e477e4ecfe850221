"""The time in which the watch could see. Pure.

In: the host's wall clock at every step. Out: a count of milliseconds that never jumps and stands
still while the watch is blind, and the kind of hour that it is. Never: a clock of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from bus.domain.times import HOUR_MS

MAX_STEP_MS = 15_000
"""A longer step is no step: the host's clock was set, the host slept, or the watch was stopped."""

MAX_SHIFTS = 64  # of a clock that is set again and again; a longer silence is judged by the others

KINDS_OF_DAY = 3  # workdays, Saturdays, Sundays
HOUR_CLASSES = 24 * KINDS_OF_DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class WatchClock:
    """Invariant: `seen_ms` grows by what passed while the watch could see, and by nothing else."""

    now_ms: int
    seen_ms: int = 0
    shifts: list[tuple[int, int]] = field(default_factory=list)
    """Since which seen time the wall clock has been ahead of it by how much, oldest first."""

    def __post_init__(self) -> None:
        self.shifts.append((self.seen_ms, self.now_ms - self.seen_ms))

    def advance(self, now_ms: int, *, blind: bool = False) -> int:
        """The seen time at this moment of the wall clock; a step back and a jump count nothing."""
        step_ms = now_ms - self.now_ms
        self.now_ms = now_ms
        if 0 < step_ms <= MAX_STEP_MS and not blind:
            self.seen_ms += step_ms
        else:
            self._shift(now_ms - self.seen_ms)
        return self.seen_ms

    def _shift(self, shift_ms: int) -> None:
        if self.shifts[-1][1] == shift_ms:
            return
        if self.shifts[-1][0] == self.seen_ms:
            self.shifts.pop()  # it has stood still since
        self.shifts.append((self.seen_ms, shift_ms))
        del self.shifts[:-MAX_SHIFTS]

    def parts_since(self, seen_ms: int) -> Iterator[tuple[int, int | None]]:
        """The time since then as the wall clock told it: parts with begin and end, the last without
        one. What could not be seen is in none."""
        begins_ms = [seen_ms, *(max(seen_ms, since_ms) for since_ms, _ in self.shifts[1:])]
        ends_ms = [*(since_ms for since_ms, _ in self.shifts[1:]), None]
        for begin_ms, end_ms, (_, shift_ms) in zip(begins_ms, ends_ms, self.shifts, strict=True):
            if end_ms is None:
                yield begin_ms + shift_ms, None
            elif begin_ms < end_ms:
                yield begin_ms + shift_ms, end_ms + shift_ms

    def wall_ms(self, seen_ms: int) -> int:
        """The moment of the wall clock that lies as far back as this seen time."""
        return self.now_ms - (self.seen_ms - seen_ms)


def hour_class(moment_ms: int, zone: tzinfo) -> int:
    """Number of the local hour among the 24 of its kind of day."""
    local = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone)
    kind = max(0, local.weekday() - 4)
    return kind * 24 + local.hour


class HourClasses:
    """`hour_class` of whole hours, remembered: a silence is judged over the hours it has lasted."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int, int] = {}

    def at(self, moment_ms: int) -> int:
        """The class of the hour in which a moment lies."""
        hour = moment_ms // HOUR_MS
        found = self._known.get(hour)
        if found is None:
            if len(self._known) > 1000:  # six weeks; a clock that jumps must not fill the memory
                self._known.clear()
            found = self._known[hour] = hour_class(hour * HOUR_MS, self._zone)
        return found
