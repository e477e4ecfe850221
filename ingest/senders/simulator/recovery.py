"""Finds the counters that a killed simulator run never sent, in its truth files.

They are cumulative counters of the run's own epoch, so sending them twice harms nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec

from bus.contracts.meters import Sent
from ingest.senders.simulator.ground_truth import EndLine, RecordLine, RunLine, read_lines

_END_BYTES = 1024 * 1024  # longer than any line that a kill can tear


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A run without an end marker. `path` is its last part, where the marker belongs."""

    path: Path
    counters: list[Sent]

    def finish(self, at_ms: int) -> None:
        """Write the missing end marker once the counters were sent; a torn line is cut off
        first."""
        file_end = _file_end(self.path)
        torn_bytes = len(file_end) - (file_end.rfind(b"\n") + 1)
        with self.path.open("ab") as file:
            file.truncate(self.path.stat().st_size - torn_bytes)
            file.write(msgspec.json.encode(EndLine(at_ms)) + b"\n")
            file.flush()
            os.fsync(file.fileno())


def unfinished_runs(paths: Sequence[Path]) -> Iterator[UnfinishedRun]:
    """Runs that were killed; `paths` in the order of `truth_files`."""
    for _, group in groupby(paths, key=_run_of):
        parts = list(group)
        if not _has_end(parts[-1]):
            yield UnfinishedRun(parts[-1], list(_counters(parts)))


def _counters(parts: Sequence[Path]) -> Iterator[Sent]:
    epoch, cells = 0, Counter[tuple[str, str, str, int]]()
    for line in (line for part in parts for line in read_lines(part)):
        if isinstance(line, RunLine):
            epoch = line.started_ms
        elif isinstance(line, RecordLine):
            cells[line.kind, line.camera_ip, line.recognizer_ip, line.minute_ms] += 1
    for (kind, camera_ip, recognizer_ip, minute_ms), sent in cells.items():
        yield Sent(
            producer=f"city/{recognizer_ip or camera_ip}",
            epoch=epoch,
            kind=kind,
            camera_ip=camera_ip,
            recognizer_ip=recognizer_ip,
            minute_ms=minute_ms,
            sent=sent,
        )


def _run_of(path: Path) -> str:
    return path.name.split(".")[0]


def _file_end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        return file.read()


def _has_end(path: Path) -> bool:
    lines = _file_end(path).splitlines()
    return bool(lines) and lines[-1].startswith(b'{"line":"end"')
