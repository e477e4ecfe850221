"""Sends a file of recorded messages: straight to the bus, or through the edge.

Records keep their identities. Core: `lines`, `routing`, `schedule`, `counts`; shells: `source`,
`bus_sink`, `edge_sink`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bus.contracts.meters import Sent
from bus.runtime import wall_clock
from ingest.senders.replay.counts import ReplayCounts
from ingest.senders.replay.lines import Recorded, parse_line
from ingest.senders.replay.routing import RoutedRecord, route
from ingest.senders.replay.schedule import ReplaySchedule
from ingest.senders.replay.source import RecordFile

PROGRESS_EVERY = 500


class ReplaySink(Protocol):
    """Where records go. `put` may wait; `flush` returns when all is acknowledged, or raises."""

    def send(self, recorded: Recorded, routed: RoutedRecord, now_ms: int) -> None:
        """Hand over one record."""

    def send_counters(self, counters: list[Sent]) -> None:
        """Hand over counters."""

    def flush(self) -> None:
        """Wait for all acknowledgements."""


class ReplayClock(Protocol):
    """What pacing needs of time."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class WallClock:
    """The real one; `stop` ends a wait."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return wall_clock.now_ms()

    def wait(self, seconds: float) -> None:
        """Let time pass, at most until `stop`."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """End the current wait and all later ones."""
        self._stopping.set()


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`speed` None: as fast as the sink takes; `kind` empty: as each line says."""

    zone: str
    speed: float | None = 1.0
    kind: str = ""


def replay(
    file: RecordFile,
    sink: ReplaySink,
    options: ReplayOptions,
    clock: ReplayClock,
    on_progress: Callable[[ReplayCounts], None] = lambda counts: None,
) -> ReplayCounts:
    """Send the whole file; returns when everything is acknowledged."""
    start_ms = clock.now_ms()
    counts = ReplayCounts(f"replay/{file.identity}", epoch=start_ms)
    schedule = ReplaySchedule(options.speed, start_ms)
    for number, line in file.lines():
        recorded = parse_line(line, options.kind, file.identity, number)
        routed = route(recorded, options.zone)
        _wait_until(schedule.due_ms(routed.captured_at_ms), clock)
        sink.send(recorded, routed, clock.now_ms())
        cells = counts.add(routed)
        if cells:
            sink.send_counters(cells)
        if counts.sent % PROGRESS_EVERY == 0:
            on_progress(counts)
    sink.send_counters(counts.close())
    sink.flush()
    on_progress(counts)
    return counts


def _wait_until(due_ms: float, clock: ReplayClock) -> None:
    ahead_ms = due_ms - clock.now_ms()
    if ahead_ms > 0:
        clock.wait(ahead_ms / 1000)
