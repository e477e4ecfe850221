"""Which devices' clocks are off, as far as their latencies tell.

In: latency cells of a span (an hour at most). Out: the cells without what a wrong clock made, and
that apart, per device. Never: a clock, I/O.

A record cannot be stored before it was captured, so a negative latency is a clock that is ahead.
A clock that is behind adds the same amount to every record, while the records of a camera that
comes back from an outage are late by very different amounts; those are true and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from bus.contracts.meters import LatencyCell
from monitor.models.histogram import Buckets, merge, percentiles, upper_ms

Device = tuple[str, str]  # kind, camera_ip

AHEAD_MS = 1_000  # less is the usual error of two synchronised clocks
BEHIND_MS = 600_000  # less is a slow way as well
UNSET_MS = 10 * 365 * 86_400_000  # no record is ten years late: the clock was never set
SPREAD = 0.1  # of the offset; a bucket alone is 3 % wide
SPREAD_MS = 60_000


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
