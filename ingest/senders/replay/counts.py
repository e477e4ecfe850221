"""What a replay has sent: for the person who watches, and for `meter.sent`.

In: judged messages. Out: totals and `Sent` cells. Never: clock, I/O.

A file of a day touches hundreds of thousands of cells; when `MAX_CELLS` are open they are sent and
a new epoch begins, whose counts are added to those of the old one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bus.contracts.meters import Sent
from bus.domain.times import minute_of
from ingest.senders.replay.routing import RoutedRecord

MAX_CELLS = 50_000


@dataclass(slots=True)
class ReplayCounts:
    """Invariant: `sent` is the sum of `valid` and `rejected` over all kinds."""

    producer: str
    epoch: int
    sent: int = 0
    valid: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)  # "kind reason"
    _cells: dict[tuple[str, str, str, str, int], int] = field(default_factory=dict)

    def add(self, routed: RoutedRecord) -> list[Sent]:
        """Count one; hands out the cells that are complete as far as this epoch goes, if due."""
        self.sent += 1
        if routed.reason:
            self.rejected[f"{routed.kind} {routed.reason}"] += 1
        else:
            self.valid[routed.kind] += 1
        minute_ms = minute_of(routed.captured_at_ms)
        key = (
            routed.kind, routed.camera_ip, routed.recognizer_ip, routed.checkpoint_id, minute_ms,
        )  # fmt: skip
        self._cells[key] = self._cells.get(key, 0) + 1
        return self.close() if len(self._cells) >= MAX_CELLS else []

    def close(self) -> list[Sent]:
        """All open cells; the next ones belong to a new epoch."""
        cells = [
            Sent(
                producer=self.producer,
                epoch=self.epoch,
                kind=kind,
                camera_ip=camera_ip,
                recognizer_ip=recognizer_ip,
                checkpoint_id=checkpoint_id,
                minute_ms=minute_ms,
                sent=sent,
            )
            for (kind, camera_ip, recognizer_ip, checkpoint_id, minute_ms), sent in (
                self._cells.items()
            )
        ]
        self._cells.clear()
        self.epoch += 1
        return cells
