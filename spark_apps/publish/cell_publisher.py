"""Publishes what ingest has counted: touched cells on `meter.quality` and `meter.latency`.

A cell is touched by nearly every record of its device, and whole each time. So the newest state of
each goes out every few seconds and not with every batch: that would be a message a record.
Never: a cell that is not committed in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.topics import METER_LATENCY, METER_QUALITY
from spark_apps.publish.publisher import EventPublisher

INTERVAL_S = 10.0  # 2,000 devices: with two seconds the p99 of storing went from 0.3 to 0.9 s

PublishedCell = LatencyCell | QualityCell


def place_of(cell: PublishedCell) -> tuple[str, str]:
    """Topic and key: of one minute and device, or kind. Pure."""
    if isinstance(cell, LatencyCell):
        return METER_LATENCY, f"{cell.kind}:{cell.minute_ms}"
    return METER_QUALITY, f"{cell.camera_ip}:{cell.minute_ms}"


class CellPublisher:
    """For any thread. What a death leaves unpublished is in the store; the next driver publishes
    the cells of the last minutes at its start."""

    def __init__(self, publisher: EventPublisher) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        self._touched: dict[tuple[str, ...], PublishedCell] = {}
        self._due_s = 0.0

    def touch(self, latency: Iterable[LatencyCell], quality: Iterable[QualityCell]) -> None:
        """These are the newest states of these cells."""
        with self._lock:
            for cell in latency:
                name = (cell.kind, cell.district_id, cell.camera_ip, str(cell.minute_ms))
                self._touched[METER_LATENCY, *name] = cell
            for one in quality:
                name = (one.kind, one.camera_ip, one.recognizer_ip, str(one.minute_ms))
                self._touched[METER_QUALITY, *name] = one

    def publish_due(self) -> None:
        """Publish if it was not done for a while. Raises `BusError` when the queue stays full."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + INTERVAL_S
            self.publish()

    def publish(self) -> None:
        """Publish what was touched, without waiting: a cell is whole, so that a lost message heals
        with the next."""
        with self._lock:
            touched, self._touched = self._touched, {}
        for cell in touched.values():
            self._publisher.send(*place_of(cell), cell)
