"""Sends a file of recorded messages: straight to the bus, or through the edge.

Core: `lines`, `judged`, `pace`, `counts`; shells: `source`, `bus_sink`, `edge_sink`.
In: a file and a speed. Out: the counts of what was sent and acknowledged. Never: a new identity.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bus.contracts.meters import Sent
from ingest.replay.counts import ReplayCounts
from ingest.replay.judged import Judged, judge
from ingest.replay.lines import Recorded, parse_line
from ingest.replay.pace import Pace
from ingest.replay.source import RecordFile

PROGRESS_EVERY = 500


class Sink(Protocol):
    """Where records go. `put` may wait; `flush` returns when all is acknowledged, or raises."""

    def send(self, recorded: Recorded, judged: Judged, now_ms: int) -> None:
        """Hand over one record."""

    def tell(self, counters: list[Sent]) -> None:
        """Hand over counters."""

    def flush(self) -> None:
        """Wait for all acknowledgements."""


class Clock(Protocol):
    """What pacing needs of time."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class WallClock:
    """The real one; `stop` wakes whoever waits."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def wait(self, seconds: float) -> None:
        """Let time pass, at most until `stop`."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Wait no more."""
        self._stopping.set()


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`speed` None: as fast as the sink takes; `kind` empty: as each line says."""

    zone: str
    speed: float | None = 1.0
    kind: str = ""


def replay(
    file: RecordFile,
    sink: Sink,
    options: ReplayOptions,
    clock: Clock,
    on_progress: Callable[[ReplayCounts], None] = lambda counts: None,
) -> ReplayCounts:
    """Send the whole file; returns when everything is acknowledged."""
    start_ms = clock.now_ms()
    counts = ReplayCounts(f"replay/{file.identity}", epoch=start_ms)
    pace = Pace(options.speed, start_ms)
    for number, line in file.lines():
        recorded = parse_line(line, options.kind, file.identity, number)
        judged = judge(recorded, options.zone)
        _wait_until(pace.due_ms(judged.captured_at_ms), clock)
        sink.send(recorded, judged, clock.now_ms())
        cells = counts.add(judged)
        if cells:
            sink.tell(cells)
        if counts.sent % PROGRESS_EVERY == 0:
            on_progress(counts)
    sink.tell(counts.close())
    sink.flush()
    on_progress(counts)
    return counts


def _wait_until(due_ms: float, clock: Clock) -> None:
    ahead_ms = due_ms - clock.now_ms()
    if ahead_ms > 0:
        clock.wait(ahead_ms / 1000)
