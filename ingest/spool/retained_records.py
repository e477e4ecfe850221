"""Which messages are kept until the second site has them. Pure.

In: where each message was delivered, in the spool's sequence; how far the second site has each
partition. Out: up to which message all is there. Never: a message called released of which the
second site was not said to have the record; a bound on memory that a burst could pass.

Messages are followed in runs: of a run only the end in each partition is known, so it is released
as a whole. There are at most `MAX_RUNS`; beyond, neighbours become one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

MAX_RUNS = 1024

Place = tuple[str, int]
"""Topic and partition."""
Ends = dict[Place, int]
"""For each partition the offset behind the last record."""


class Delivered(NamedTuple):
    """A message and the record that the bus has of it."""

    sequence: int
    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class DeliveredRun:
    """Messages before `end_sequence`, from the run before on."""

    end_sequence: int
    ends: Ends = field(default_factory=dict)


class RetainedRecords:
    """Invariant: `released` ≤ everything of `_runs`, which ascend up to what was delivered;
    messages before `dropped` are no longer in the spool, released or not."""

    def __init__(
        self, floor: int, dropped: int = 0, dropped_ends: Mapping[Place, int] = MappingProxyType({})
    ) -> None:
        """`floor`: nothing before it is kept. `dropped` and its ends: what an earlier process had
        to give up and the second site was not known to have."""
        self.released = floor
        self.dropped = max(dropped, floor)
        self._runs: deque[DeliveredRun] = deque()
        self._confirmed: Ends = {}
        self._delivered: Ends = {}
        if dropped > floor:
            self._runs.append(DeliveredRun(dropped, dict(dropped_ends)))

    @property
    def uncovered(self) -> int:
        """Messages that are neither in the spool nor known to be at the second site."""
        return max(0, self.dropped - self.released)

    @property
    def dropped_ends(self) -> Ends:
        """The ends of what is uncovered, for a later process; a run that begins there counts."""
        found: Ends = {}
        for run in self._runs:
            _raise_to(found, run.ends)
            if run.end_sequence >= self.dropped:
                break
        return found if self.uncovered else {}

    def on_delivered(self, end_sequence: int, rows: Iterable[Delivered]) -> None:
        """The bus has every message before `end_sequence`; `rows` are new, ascending. Messages
        without a row were lost to damage: there is nothing to keep."""
        run = DeliveredRun(end_sequence)
        for row in rows:
            place = row.topic, row.partition
            if row.offset < self._delivered.get(place, 0):
                # The log there is another one, or was cut: what was said of it is void. (Or a
                # message was sent twice out of its order; then the next value comes in a minute.)
                self._confirmed.pop(place, None)
            self._delivered[place] = row.offset + 1
            run.ends[place] = max(run.ends.get(place, 0), row.offset + 1)
        self._runs.append(run)
        if len(self._runs) > MAX_RUNS:
            self._join_runs()
        self._release()

    def on_confirmed(self, confirmed: Mapping[Place, int]) -> None:
        """The newest that was said of these partitions; a lower value than before counts too."""
        self._confirmed.update(confirmed)
        self._release()

    def is_confirmed(self, ends: Mapping[Place, int]) -> bool:
        """Whether the second site has all of it."""
        return all(self._confirmed.get(place, 0) >= end for place, end in ends.items())

    def on_dropped(self, end_sequence: int) -> None:
        """Messages before this are deleted, whatever is known of them."""
        self.dropped = max(self.dropped, end_sequence)

    def reset(self, floor: int) -> None:
        """Everything before `floor` is where it has to be; from now on another site delivers."""
        self.released = self.dropped = floor
        self._runs.clear()
        self._confirmed.clear()
        self._delivered.clear()

    def _release(self) -> None:
        while self._runs and self.is_confirmed(self._runs[0].ends):
            self.released = max(self.released, self._runs.popleft().end_sequence)

    def _join_runs(self) -> None:
        """Halve their number."""
        runs = list(self._runs)
        self._runs = deque(_joined(runs[at : at + 2]) for at in range(0, len(runs), 2))


def _joined(runs: Sequence[DeliveredRun]) -> DeliveredRun:
    ends = dict(runs[0].ends)
    for _, later in pairwise(runs):
        _raise_to(ends, later.ends)
    return DeliveredRun(runs[-1].end_sequence, ends)


def _raise_to(ends: Ends, others: Mapping[Place, int]) -> None:
    for place, end in others.items():
        ends[place] = max(ends.get(place, 0), end)


def is_beyond(row: Delivered | None, held: Mapping[Place, int]) -> bool:
    """Whether a kept message has to be sent to the second site, which holds each partition up to
    the given end. One of which it is not known where it was delivered has to."""
    return row is None or row.offset >= held.get((row.topic, row.partition), 0)
