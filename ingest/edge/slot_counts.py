"""How many messages of one segment belong to each slot, and what the bus knows of it. Pure.

In: slots, one for each message; what was acknowledged. Out: `Arrived` messages. Never: I/O.
"""

from __future__ import annotations

from bus.contracts.meters import Arrived
from ingest.spool.frame import Slot


class SlotCounts:
    """Of one segment: as many slots as it has messages at most. Invariant: what was told of a slot
    is at most its count."""

    def __init__(self, edge: str, epoch: int) -> None:
        self._edge = edge
        self._epoch = epoch
        self._counts: dict[Slot, int] = {}
        self._acknowledged: dict[Slot, int] = {}

    def add(self, slot: Slot) -> None:
        """One more message."""
        self._counts[slot] = self._counts.get(slot, 0) + 1

    def grown(self) -> list[Arrived]:
        """What the bus does not know yet, cumulative."""
        return [
            Arrived(
                edge=self._edge, epoch=self._epoch, kind=slot[0], camera_ip=slot[1],
                recognizer_ip=slot[2], minute_ms=slot[3], arrived=count,
            )
            for slot, count in self._counts.items()
            if self._acknowledged.get(slot, 0) < count
        ]  # fmt: skip

    def acknowledge(self, message: Arrived) -> None:
        """The bus has this one."""
        slot = (message.kind, message.camera_ip, message.recognizer_ip, message.minute_ms)
        self._acknowledged[slot] = max(self._acknowledged.get(slot, 0), message.arrived)
