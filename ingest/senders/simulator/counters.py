"""Counts what the city's producers sent: `meter.sent` cells, cumulative within an epoch.

In: one call per record. Out: the cells that are due to be sent. A cell stays due until it
was acknowledged, and is sent again when its minute is over, which makes up for a lost message.
Never: clock, I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.contracts.meters import Sent
from bus.contracts.register import Device
from bus.domain.times import MINUTE_MS

REPEAT_AFTER_MS = 90_000  # after the last record of the cell
FORGET_AFTER_MS = 30 * MINUTE_MS  # late captures of a slow uplink still find their cell


@dataclass(slots=True)
class _Cell:
    device: Device
    minute_ms: int
    sent: int = 0
    acknowledged: int = 0  # the count last acknowledged
    repeated: bool = False
    touched_ms: int = 0


class SentCounters:
    """Invariant: `acknowledged <= sent` in every cell; `sent` only grows."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._cells: dict[tuple[str, int], _Cell] = {}

    def count(self, device: Device, minute_ms: int, now_ms: int) -> None:
        """One more record of this device for this capture minute."""
        key = (device.camera_ip, minute_ms)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Cell(device, minute_ms)
        cell.sent += 1
        cell.touched_ms = now_ms
        cell.repeated = False

    def due(self, now_ms: int) -> list[Sent]:
        """Cells that changed since they were acknowledged, and again those whose minute is over."""
        self._forget(now_ms)
        due = []
        for cell in self._cells.values():
            closing = not cell.repeated and now_ms - cell.touched_ms >= REPEAT_AFTER_MS
            if cell.sent != cell.acknowledged or closing:
                cell.repeated = closing
                due.append(self._message(cell))
        return due

    def mark_acknowledged(self, messages: Iterable[Sent]) -> None:
        """These messages were acknowledged."""
        for message in messages:
            cell = self._cells.get((message.camera_ip, message.minute_ms))
            if cell is not None:
                cell.acknowledged = max(cell.acknowledged, message.sent)

    @property
    def unacknowledged(self) -> int:
        """Cells whose last count is not acknowledged yet."""
        return sum(cell.sent != cell.acknowledged for cell in self._cells.values())

    def _message(self, cell: _Cell) -> Sent:
        return Sent(
            producer=f"city/{cell.device.recognizer_ip or cell.device.camera_ip}",
            epoch=self._epoch,
            kind=cell.device.kind,
            camera_ip=cell.device.camera_ip,
            recognizer_ip=cell.device.recognizer_ip,
            checkpoint_id=cell.device.checkpoint_id,
            minute_ms=cell.minute_ms,
            sent=cell.sent,
        )

    def _forget(self, now_ms: int) -> None:
        old = [
            key
            for key, cell in self._cells.items()
            if cell.acknowledged == cell.sent and now_ms - cell.touched_ms > FORGET_AFTER_MS
        ]
        for key in old:
            del self._cells[key]
