"""What is known of the clocks of devices: of those that are off, or of the one that was asked for.

The least latencies of a day by minute are read for each, so it is done for a few devices; the
estimate itself is pure (`monitor.models.device_clock`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.contracts.register import Register
from bus.domain.times import DAY_MS
from ingest.store.port import RecordReader
from monitor.api.latency_totals import LatencyOfSpan, LatencyScope, latency_scope
from monitor.api.series import clock_rows
from monitor.api.views import place
from monitor.models.device_clock import BEHIND_MS, ClockEstimate, estimate, readings_of

MAX_ESTIMATED = 20  # devices: 1,440 cells of each
LONGEST_MS = DAY_MS  # the newest of the span: an older offset says nothing about today's

Estimates = Mapping[str, ClockEstimate]


def clock_estimates(
    reader: RecordReader, found: LatencyOfSpan, whose: LatencyScope, register: Register, *,
    from_ms: int, until_ms: int, now_ms: int,
) -> dict[str, ClockEstimate]:  # fmt: skip
    """By camera; of those whose clock is off the worst. Blocks; belongs into a `ReaderPool`.

    Latencies of the store hold the time of ingest, so a step of seconds is no jump there.
    """
    until_ms = min(until_ms, now_ms + 1)
    from_ms = max(from_ms, until_ms - LONGEST_MS)
    cameras = [row["camera_ip"] for row in clock_rows(found.clock_off, register)]
    if whose.scope == "device":
        cameras = [whose.scope_id]
    estimates = {}
    for camera_ip in list(dict.fromkeys(cameras))[:MAX_ESTIMATED]:
        cells = reader.device_latency(
            from_ms=from_ms, until_ms=until_ms, camera_ip=camera_ip,
            districts=latency_scope("device", camera_ip, register).districts,
        )  # fmt: skip
        known = estimate(readings_of(cells), least_jump_ms=BEHIND_MS)
        if known is not None:
            estimates[camera_ip] = known
    return estimates


def estimate_rows(estimates: Estimates, register: Register) -> list[dict[str, Any]]:
    """As the API tells them: positive is ahead, or too fast."""
    rows = []
    for camera_ip, known in estimates.items():
        device = register.device_by_ip.get(camera_ip)
        rows.append(
            {
                "camera_ip": camera_ip,
                **place(device.checkpoint_id if device else "", register),
                "offset_ms": known.offset_ms,
                "drift_ppm": known.drift_ppm,
                "jumps": [{"at_ms": jump.at_ms, "by_ms": jump.by_ms} for jump in known.jumps],
                "since_ms": known.since_ms,
                "minutes": known.minutes,
            }
        )
    return rows


def clock_table(
    found: LatencyOfSpan, estimates: Estimates, register: Register
) -> list[dict[str, Any]]:
    """The devices whose clock is off, by their latencies or by the estimate, and those whose clock
    was set; `count` records are in no curve."""
    rows = clock_rows(found.clock_off, register)
    listed = {row["camera_ip"] for row in rows}
    for row in estimate_rows(estimates, register):
        known = estimates[row["camera_ip"]]
        if row["camera_ip"] not in listed and (known.is_off or known.jumps):
            device = register.device_by_ip.get(row["camera_ip"])
            kind = device.kind if device else ""
            rows.append({**row, "kind": kind, "clock_off_ms": known.offset_ms, "count": 0})
    return rows
