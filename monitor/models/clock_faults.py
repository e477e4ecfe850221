"""Which devices' clocks are off, as far as their latencies tell.

In: latency cells of a span (an hour at most). Out: the cells without what a wrong clock made, and
that apart, per device. Never: a clock, I/O.

A record cannot be stored before it was captured, so a negative latency is a clock that is ahead.
A clock that is behind adds the same amount to every record, while the records of a camera that
comes back from an outage are late by very different amounts; those are true and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set

from msgspec.structs import replace

from bus.contracts.meters import LatencyCell
from bus.domain.times import HOUR_MS
from monitor.models.histogram import Buckets, merge, percentiles, upper_ms

Device = tuple[str, str]  # kind, camera_ip

AHEAD_MS = 1_000  # less is the usual error of two synchronised clocks
BEHIND_MS = 600_000  # less is a slow way as well
UNSET_MS = 10 * 365 * 86_400_000  # no record is ten years late: the clock was never set
SPREAD = 0.1  # of the offset; a bucket alone is 3 % wide
SPREAD_MS = 60_000
FEW = 3  # fewer late records say nothing about a clock


def sound_cells(
    cells: Iterable[LatencyCell],
) -> tuple[list[LatencyCell], dict[Device, Buckets]]:
    """The cells with true latencies only, and per device the histogram of what was left out."""
    by_device: dict[Device, list[LatencyCell]] = defaultdict(list)
    for cell in cells:
        by_device[cell.kind, cell.camera_ip].append(cell)
    sound: list[LatencyCell] = []
    off: dict[Device, Buckets] = {}
    for device, own in by_device.items():
        together = merge(cell.buckets for cell in own)
        if is_clock_off(together):
            off[device] = together
            continue
        wrong = {b: n for b, n in together.items() if _is_impossible(b)}
        if wrong:
            off[device] = wrong
            own = [_without(cell, wrong) for cell in own]
        sound += (cell for cell in own if cell.buckets)
    return sound, off


def judged_odd(
    hours: Iterable[LatencyCell],
) -> tuple[dict[Device, Buckets], set[tuple[Device, int]]]:
    """Of the odd latencies of devices in hours (`ingest.store.rollups`): per device what its clock
    made, and the hours in which a device's records were truly late.

    A device is judged over all its hours, and by single hours where they do not agree.
    """
    by_device: dict[Device, list[LatencyCell]] = defaultdict(list)
    for cell in hours:
        by_device[cell.kind, cell.camera_ip].append(cell)
    off: dict[Device, list[Buckets]] = defaultdict(list)
    late: set[tuple[Device, int]] = set()
    for device, own in by_device.items():
        always = _is_off(merge(_possible(cell.buckets) for cell in own))
        for cell in own:
            possible = _possible(cell.buckets)
            if possible and not always and not _is_off(possible):
                late.add((device, cell.minute_ms))
            else:
                off[device].append(possible)
            off[device].append({b: n for b, n in cell.buckets.items() if b not in possible})
    return {d: together for d, parts in off.items() if (together := merge(parts))}, late


def late_cells(
    odd: Iterable[LatencyCell], late: Set[tuple[Device, int]]
) -> list[LatencyCell]:
    """Of odd latencies those of the hours in which their device was truly late."""
    return [
        replace(cell, buckets=_possible(cell.buckets))
        for cell in odd
        if ((cell.kind, cell.camera_ip), cell.minute_ms - cell.minute_ms % HOUR_MS) in late
    ]


def _is_off(buckets: Buckets) -> bool:
    return sum(buckets.values()) >= FEW and is_clock_off(buckets)


def _possible(buckets: Buckets) -> Buckets:
    return {b: n for b, n in buckets.items() if not _is_impossible(b)}


def is_clock_off(buckets: Buckets) -> bool:
    """Whether a device's clock was off all the time that this histogram covers."""
    low_ms, high_ms = percentiles(buckets, (0.05, 0.95))
    if low_ms < -AHEAD_MS:
        return True
    return low_ms > BEHIND_MS and high_ms - low_ms <= low_ms * SPREAD + SPREAD_MS


def clock_off_ms(buckets: Buckets) -> int:
    """By how much a clock is off, from the latencies it made: positive is ahead."""
    [middle_ms] = percentiles(buckets, (0.5,))
    return -middle_ms


def _is_impossible(bucket: int) -> bool:
    return not -AHEAD_MS <= upper_ms(bucket) < UNSET_MS


def _without(cell: LatencyCell, wrong: Buckets) -> LatencyCell:
    return replace(cell, buckets={b: n for b, n in cell.buckets.items() if b not in wrong})
