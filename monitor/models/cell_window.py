"""The newest state of cumulative cells of the last minutes. Pure.

In: whole cells in any order, each with the number of the batch that made it so. Out: what is
newest. Never: a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from bus.domain.times import MINUTE_MS

KEEP_MINUTES = 120


class _CumulativeCell(Protocol):
    @property
    def minute_ms(self) -> int: ...
    @property
    def attempt(self) -> int: ...


Cell = TypeVar("Cell", bound=_CumulativeCell)


@dataclass(slots=True)
class CellWindow(Generic[Cell]):
    """Invariant: per minute and key the cell of the highest attempt that was seen."""

    key_of: Callable[[Cell], Hashable]
    keep_minutes: int = KEEP_MINUTES
    minutes: dict[int, dict[Hashable, Cell]] = field(default_factory=dict)

    def add(self, cells: Iterable[Cell]) -> set[int]:
        """Put cells in; return the minutes that changed. An older state of a cell changes
        nothing.
        """
        touched = set()
        for cell in cells:
            minute = self.minutes.setdefault(cell.minute_ms, {})
            key = self.key_of(cell)
            known = minute.get(key)
            if known is None or cell.attempt > known.attempt:
                minute[key] = cell
                touched.add(cell.minute_ms)
        return touched

    def between(self, from_ms: int, until_ms: int) -> Iterator[Cell]:
        """The cells of these minutes."""
        for minute_ms, cells in self.minutes.items():
            if from_ms <= minute_ms < until_ms:
                yield from cells.values()

    def drop_before(self, minute_ms: int) -> None:
        """Drop the minutes before this one."""
        for minute in [m for m in self.minutes if m < minute_ms]:
            del self.minutes[minute]

    def trim(self, present_ms: int) -> None:
        """Drop minutes further than `keep_minutes` from the present. Those of devices whose clocks
        are far ahead as well, which would stay for ever."""
        span_ms = self.keep_minutes * MINUTE_MS
        for minute_ms in [m for m in self.minutes if abs(present_ms - m) > span_ms]:
            del self.minutes[minute_ms]
