"""What each site counted of each device in an hour, and where the two do not agree. Pure.

In: the quality cells of both sites, added up by device and hour. Out: the numbers that differ.
Never: a count of the mirror: it copied what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.domain.times import HOUR_MS

SETTLED_MS = 600_000
"""An hour is compared this long after its end: records come late, at the second site later
still."""
MAX_HOURS = 3
"""Around a switch."""
NUMBERS = ("sent", "arrived", "valid", "stored")
"""What senders have told, what was on the bus, what was valid, what is in the store."""


class DeviceCount(msgspec.Struct, frozen=True, array_like=True):
    """One device and server in one hour; a row of the console's `/api/quality/hour`."""

    kind: str
    camera_ip: str
    recognizer_ip: str
    sent: int
    arrived: int
    valid: int
    stored: int


class HourCounts(msgspec.Struct, frozen=True):
    """One site's hour, from `hour_ms` on. `total` devices have numbers in it; fewer rows are a
    part."""

    hour_ms: int
    total: int
    rows: tuple[DeviceCount, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every device is in it."""
        return len(self.rows) >= self.total


class CountDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One number of one device in one hour."""

    hour_ms: int
    kind: str
    camera_ip: str
    recognizer_ip: str
    number: str
    source: int
    target: int


class DeviceLack(msgspec.Struct, frozen=True, kw_only=True):
    """A device of which a site lacks records, by what its sender has counted in an hour."""

    hour_ms: int
    kind: str
    camera_ip: str
    recognizer_ip: str
    sent: int
    arrived: int

    @property
    def lacking(self) -> int:
        """Records that were sent and are not at the site."""
        return self.sent - self.arrived


def lacking_devices(hours: Iterable[HourCounts]) -> list[DeviceLack]:
    """Those that have sent more than arrived, the most lacking first."""
    found = [
        DeviceLack(
            hour_ms=hour.hour_ms, kind=kind, camera_ip=camera, recognizer_ip=server,
            sent=counts["sent"], arrived=counts["arrived"],
        )
        for hour in hours
        for (kind, camera, server), counts in _by_device(hour.rows).items()
        if counts["sent"] > counts["arrived"]
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.lacking, one.hour_ms, one.kind, one.camera_ip))


def hours_around(at_ms: int, now_ms: int) -> list[int]:
    """From the hour before a moment to the present one, ascending; `MAX_HOURS` at most, the first
    ones: what a switch has lost was sent before it."""
    first = at_ms // HOUR_MS * HOUR_MS - HOUR_MS
    return list(range(first, now_ms + 1, HOUR_MS))[:MAX_HOURS]


def settled_hours(now_ms: int, hours: int) -> list[int]:
    """The beginnings of the last whole hours that can be compared, ascending."""
    end = (now_ms - SETTLED_MS) // HOUR_MS * HOUR_MS
    return [end - number * HOUR_MS for number in range(hours, 0, -1)]


def differing_counts(source: HourCounts, target: HourCounts) -> list[CountDifference]:
    """All of one hour, by device; one that a site has not counted has zeros there."""
    ours, theirs = _by_device(target.rows), _by_device(source.rows)
    nothing = dict.fromkeys(NUMBERS, 0)
    return [
        CountDifference(
            hour_ms=source.hour_ms, kind=device[0], camera_ip=device[1], recognizer_ip=device[2],
            number=number, source=one[number], target=other[number],
        )
        for device in sorted(ours.keys() | theirs.keys())
        for one, other in [(theirs.get(device, nothing), ours.get(device, nothing))]
        for number in NUMBERS
        if one[number] != other[number]
    ]  # fmt: skip


def _by_device(rows: Iterable[DeviceCount]) -> dict[tuple[str, str, str], dict[str, int]]:
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in rows:
        device = row.kind, row.camera_ip, row.recognizer_ip
        known = found.setdefault(device, dict.fromkeys(NUMBERS, 0))
        for number in NUMBERS:
            known[number] += getattr(row, number)
    return found
