"""A drill: a planned switch to the other site and back, with the times it took.

In: two planned switches, the mirror's status. Out: a `DrillProtocol`, appended to a file. Core:
`dr_mirror.switch.plan.switch`. Never: a way back before the mirror has turned round and copied all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bus.contracts.mirror_status import MirrorStatus
from bus.runtime.wall_clock import now_ms
from bus.settings import SiteSettings
from dr_mirror.report.plan.switch_report import SwitchStatement
from dr_mirror.status.status_file import FRESH_MS, StatusUnavailable
from dr_mirror.switch.plan.switch import status_obstacles
from dr_mirror.switch.steps import SwitchLimits, SwitchRefused, SwitchUnfinished

POLL_S = 0.2
TAIL_BYTES = 1 << 16
"""Of the file of drills: some hundred protocols."""

PlannedRun = Callable[[], SwitchStatement]
ReadStatus = Callable[[], MirrorStatus]


class DrillProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """`there_ms`, `back_ms`: from the site epoch until the new primary takes records, each way;
    the larger one is the RTO. `turned_ms`: until the mirror had turned round and copied all."""

    at_ms: int
    there: int
    back: int
    there_ms: int
    turned_ms: int
    back_ms: int
    partitions: int
    notes: tuple[str, ...]

    @property
    def rto_s(self) -> float:
        """How long nobody took records, on the longer way."""
        return max(self.there_ms, self.back_ms) / 1000


def drills_path(site: SiteSettings) -> Path:
    """A line per drill."""
    return site.data_path / "mirror" / "drills.jsonl"


_protocols = msgspec.json.Decoder(DrillProtocol)


class LastDrill:
    """The newest protocol of a file that another process appends to, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, int] = (-1, -1)
        self._protocol: DrillProtocol | None = None

    def read(self) -> DrillProtocol | None:
        """None before the first drill, and while the file cannot be read."""
        try:
            found = self._path.stat()
            if (found.st_size, found.st_mtime_ns) != self._read:
                with self._path.open("rb") as file:
                    file.seek(max(0, found.st_size - TAIL_BYTES))
                    self._protocol = last_protocol(file.read(TAIL_BYTES))
                self._read = found.st_size, found.st_mtime_ns
        except OSError:
            return None
        return self._protocol


def last_protocol(lines: bytes) -> DrillProtocol | None:
    """Of the last whole line that is one: a crash may have torn the one behind it."""
    for line in reversed(lines.split(b"\n")):
        try:
            return _protocols.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
    return None


def drill(
    there: PlannedRun, back: PlannedRun, read_status: ReadStatus, limits: SwitchLimits, path: Path
) -> DrillProtocol:
    """Both ways. Raises what a planned switch raises; what was done then is done."""
    at_ms = now_ms()
    first = there()
    begun = time.monotonic()
    _wait_until_copied(read_status, first.new, limits)
    turned_ms = int((time.monotonic() - begun) * 1000)
    second = _without_refusal(back)
    protocol = DrillProtocol(
        at_ms=at_ms, there=first.number, back=second.number, there_ms=first.took_ms,
        turned_ms=turned_ms, back_ms=second.took_ms, partitions=len(second.partitions),
        notes=(*first.notes, *second.notes),
    )  # fmt: skip
    _append(path, protocol)
    return protocol


def _wait_until_copied(read_status: ReadStatus, copied_from: str, limits: SwitchLimits) -> None:
    deadline = time.monotonic() + limits.timeout_s
    why = "the mirror has said nothing yet"
    while time.monotonic() < deadline:
        try:
            status = read_status()
        except StatusUnavailable as error:
            why = str(error)
        else:
            obstacles = status_obstacles(
                status, copied_from=copied_from, age_ms=now_ms() - status.at_ms,
                max_age_ms=FRESH_MS, max_lag_s=limits.max_lag_s,
            )  # fmt: skip
            if not obstacles and status.partitions:
                return
            why = obstacles[0].text if obstacles else "no partition is copied yet"
        time.sleep(POLL_S)
    raise SwitchUnfinished(
        f"the other site is the primary and the mirror does not copy back: {why}. The drill ends "
        "here; remove the cause and go back with databus mirror switch --to"
    )


def _without_refusal(back: PlannedRun) -> SwitchStatement:
    """A refusal of the way back leaves the other site as primary: something has changed."""
    try:
        return back()
    except SwitchRefused as error:
        raise SwitchUnfinished(
            f"the other site is the primary, and the way back was refused: {error}. Go back with "
            "databus mirror switch --to"
        ) from None


def _append(path: Path, protocol: DrillProtocol) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(protocol) + b"\n")
        file.flush()
        os.fsync(file.fileno())
