"""What the quality page and the API ask of the store for one span: a bounded number of rows, for
any number of devices and days.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bus.contracts.meters import QualityCell
from bus.contracts.register import Register
from ingest.store.port import QualityDevices, QualitySum, RecordReader
from monitor.api.series import (
    SETTLED_MS,
    device_step_ms,
    in_flight_of_devices,
    in_flight_of_slots,
    quality_curve,
    quality_devices,
    quality_totals,
    slot_ms,
)


class QualityOfSpan(NamedTuple):
    """Sums of all devices (or of one camera) by slot, and the devices with the widest gaps."""

    slot_ms: int
    sums: list[QualitySum]
    devices_from_ms: int
    devices: QualityDevices
    just_now: list[QualityCell]
    """Cells with records that edges took a moment ago and that are not on the bus yet."""

    @property
    def curve(self) -> list[list[int]]:
        """See `quality_curve`."""
        return quality_curve(self.sums, in_flight_of_slots(self.just_now, self.slot_ms))

    @property
    def totals(self) -> dict[str, Any]:
        """See `quality_totals`."""
        return quality_totals(self.sums, sum(cell.missing for cell in self.just_now))

    def rows(self, register: Register) -> list[dict[str, Any]]:
        """See `quality_devices`."""
        return quality_devices(self.devices, in_flight_of_devices(self.just_now), register)


class QualityQuestion(NamedTuple):
    """A kind and a camera, if not empty, restrict it."""

    from_ms: int
    until_ms: int
    kind: str
    camera_ip: str
    max_devices: int

    def ask(self, reader: RecordReader, now_ms: int) -> QualityOfSpan:
        """Blocks; belongs into a `ReaderPool`. Begins with the slot in which the span does."""
        slot = slot_ms(self.from_ms, self.until_ms)
        step_ms = device_step_ms(self.from_ms, self.until_ms)
        devices_from_ms = self.from_ms - self.from_ms % step_ms
        narrowed = {"kind": self.kind, "camera_ip": self.camera_ip}
        just_now = reader.missing_records(
            from_ms=max(self.from_ms, now_ms - SETTLED_MS), until_ms=self.until_ms
        )
        return QualityOfSpan(
            slot,
            reader.quality_sums(
                step_ms=slot,
                from_ms=self.from_ms - self.from_ms % slot,
                until_ms=self.until_ms,
                **narrowed,
            ),
            devices_from_ms,
            reader.quality_devices(
                step_ms=step_ms,
                from_ms=devices_from_ms,
                until_ms=self.until_ms,
                limit=self.max_devices,
                **narrowed,
            ),
            [
                cell
                for cell in just_now
                if self.kind in ("", cell.kind) and self.camera_ip in ("", cell.camera_ip)
            ],
        )
