"""Records that an edge handed to the bus and that ingest never found there, by device and slot.

In: settled slots in which fewer arrived on the bus than edges have told. Out: `Condition`s. Pure.
A slot is settled when its records can be expected to be stored, and the edge tells only of what the
bus has acknowledged; what is missing then for longer than `BOUND_MS` was lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import NamedTuple

from monitor.watch.conditions import Condition

BOUND_MS = 75_000  # seen in two readings of the store, a minute apart
MAX_DEVICES = 50  # told by name; the others are counted
MAX_KNOWN = 4 * MAX_DEVICES
MAX_SLOTS = 10  # of one device, told by time
OTHERS = "others"


class MissingRecords(NamedTuple):
    """So many records of one device's slot."""

    kind: str
    camera_ip: str
    minute_ms: int
    records: int


@dataclass(slots=True)
class MissingJudge:
    """Invariant: `_known` are the subjects that were bad, the latest last, `MAX_KNOWN` at most."""

    zone: tzinfo
    _known: dict[str, None] = field(default_factory=dict)

    def observe(self, slots: Iterable[MissingRecords]) -> list[Condition]:
        """A condition for each device with missing records, and for each that had some."""
        devices: dict[str, list[MissingRecords]] = {}
        for slot in sorted(slots):
            devices.setdefault(f"{slot.kind} {slot.camera_ip}".strip(), []).append(slot)
        named = dict(list(devices.items())[:MAX_DEVICES])
        details = {subject: self._detail(found) for subject, found in named.items()}
        if more := [one for name, found in devices.items() if name not in named for one in found]:
            details[OTHERS] = {
                "devices": str(len(devices) - len(named)), "missing": _sum(more),
            }  # fmt: skip
        ended = [name for name in self._known if name not in details]
        self._known = dict.fromkeys([*ended, *details][-MAX_KNOWN:])
        return [
            *(Condition("missing", name, True, BOUND_MS, text) for name, text in details.items()),
            *(Condition("missing", name, False, BOUND_MS) for name in ended),
        ]

    def _detail(self, slots: list[MissingRecords]) -> dict[str, str]:
        times = [
            f"{datetime.fromtimestamp(one.minute_ms / 1000, self.zone):%m-%d %H:%M} ({one.records})"
            for one in slots[:MAX_SLOTS]
        ]
        more = [f"+{len(slots) - MAX_SLOTS}"] if len(slots) > MAX_SLOTS else []
        return {
            "class": slots[0].kind, "address": slots[0].camera_ip, "missing": _sum(slots),
            "slots": ", ".join([*times, *more]),
        }  # fmt: skip


def _sum(slots: Iterable[MissingRecords]) -> str:
    return str(sum(one.records for one in slots))
