"""What producers say they sent: cumulative counters turned into increments, each counted once.

In: `Sent` messages in any order, repeated or with gaps. Out: how much each adds to its cell.
Never: I/O, a clock. A producer counts per epoch (one run of it), device and capture minute;
within an epoch the largest number is the truth, over epochs and producers the numbers add up
(design: *counts*).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from bus.contracts.meters import Sent

CellKey = tuple[str, str, str, int]  # kind, camera, server, capture minute
_Counter = tuple[str, int, CellKey]

MAX_COUNTERS = 200_000  # about 100 bytes each; two hours of 1,600 devices


def cell_key(sent: Sent) -> CellKey:
    """The quality cell a counter belongs to."""
    return sent.kind, sent.camera_ip, sent.recognizer_ip, sent.minute_ms


@dataclass(slots=True)
class SentBook:
    """The largest number seen per counter.

    `known_from_ms`: every counter message sent since then has been read, by this process or by
    `prime`.
    Invariant: a counter in `largest` was added to the store's cells up to exactly that number.
    """

    known_from_ms: int = 0
    largest: OrderedDict[_Counter, int] = field(default_factory=OrderedDict)

    def prime(self, counters: Iterable[Sent]) -> None:
        """Read again what the store has already counted."""
        for sent in counters:
            self._remember((sent.producer, sent.epoch, cell_key(sent)), sent.sent)

    def unknown(self, sent: Sent) -> bool:
        """True if part of this counter may have been counted by an earlier process unknown to
        us.
        """
        fresh = max(sent.minute_ms, sent.epoch) >= self.known_from_ms
        return not fresh and (sent.producer, sent.epoch, cell_key(sent)) not in self.largest

    def take(self, sent: Sent, stored: int = 0) -> int:
        """How much the message adds. `stored` is what the cell holds, asked for when `unknown`."""
        counter = (sent.producer, sent.epoch, cell_key(sent))
        before = self.largest.get(counter)
        if before is None:
            before = min(stored, sent.sent) if self.unknown(sent) else 0
        self._remember(counter, max(before, sent.sent))
        return max(0, sent.sent - before)

    def _remember(self, counter: _Counter, number: int) -> None:
        self.largest[counter] = max(number, self.largest.get(counter, 0))
        self.largest.move_to_end(counter)
        if len(self.largest) > MAX_COUNTERS:
            self.largest.popitem(last=False)
