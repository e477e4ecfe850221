"""Which devices send records of which something is lost, by field. Pure.

In: faults of accepted records, the time. Out: rows, the newest first. Never: more than `MAX_ROWS`;
the one that was warned of longest ago goes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from bus.contracts.sender_faults import WarnedDevice

MAX_ROWS = 5_000
MAX_NAME = 64  # characters of an address or key that is shown
MAX_MESSAGE = 300


@dataclass(slots=True)
class _FieldRow:
    records: int
    last_ms: int
    message: str
    message_zh: str


class WarnedDevices:
    """Invariant: `_rows` has `MAX_ROWS` at most, the newest at its end."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, str], _FieldRow] = OrderedDict()

    def add(self, camera_ip: str, field: str, message: str, message_zh: str, now_ms: int) -> None:
        """One record of this device, one fault of it; the newest text stays."""
        key = camera_ip[:MAX_NAME], field[:MAX_NAME]
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _FieldRow(0, now_ms, "", "")
            if len(self._rows) > MAX_ROWS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(key)
        row.records, row.last_ms = row.records + 1, now_ms
        row.message, row.message_zh = message[:MAX_MESSAGE], message_zh[:MAX_MESSAGE]

    def rows(self, limit: int) -> list[WarnedDevice]:
        """The newest first."""
        found: list[WarnedDevice] = []
        for (camera_ip, field), row in reversed(self._rows.items()):
            if len(found) >= limit:
                break
            found.append(
                WarnedDevice(
                    camera_ip=camera_ip, field=field, records=row.records, last_ms=row.last_ms,
                    message=row.message, message_zh=row.message_zh,
                )
            )  # fmt: skip
        return found
