"""Writes the ground truth: every record before it is sent, every acknowledgement after it came.

`truth-<run>.<part>.jsonl` is append-only; parts whose records are all acknowledged are folded into
a summary, so that the log of a city that runs for weeks stays small. Called from several threads
(one per recognition server).
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from bus.files.durable_file import replace_durably
from ingest.senders.simulator.ground_truth import (
    EndLine,
    RecordLine,
    RuleLine,
    RunLine,
    SentLine,
    SummaryLine,
    TruthLine,
    TruthTotals,
)

PART_BYTES = 32 * 1024 * 1024  # about 150,000 records; a few parts at most wait to be folded
_NOTHING: Mapping[int, str] = MappingProxyType({})


class _Part:
    """One file. `open` holds its records that are not acknowledged yet."""

    def __init__(self, path: Path, first_n: int) -> None:
        self.path = path
        self.first_n = first_n
        self.end_n = first_n
        self.open: dict[int, RecordLine] = {}
        self.totals = TruthTotals()


class TruthLog:
    """Invariant: a record that may have left the process has a line in the file (page cache)."""

    def __init__(self, directory: Path, run: RunLine, *, part_bytes: int = PART_BYTES) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._run = run
        self._part_bytes = part_bytes
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._parts: list[_Part] = []
        self._rules: tuple[RuleLine, ...] = ()
        self._written_bytes = 0
        self._next_part(0)

    @property
    def pending(self) -> int:
        """Records that are not acknowledged yet."""
        with self._lock:
            return sum(len(part.open) for part in self._parts)

    def rules(self, rules: Sequence[RuleLine]) -> None:
        """Rules that are in force from now on."""
        with self._lock:
            self._rules = tuple(rules)
            self._write(rules)

    def records(self, records: Sequence[RecordLine]) -> None:
        """These are about to be sent. Returns when the operating system has the lines."""
        if not records:
            return
        with self._lock:
            if self._written_bytes > self._part_bytes:
                self._next_part(records[0].n)
            self._write(records)
            part = self._parts[-1]
            part.open.update((record.n, record) for record in records)
            part.end_n = records[-1].n + 1

    def sent(
        self,
        ns: Sequence[int],
        ids: Mapping[int, str] = _NOTHING,
        rejected: Mapping[int, str] = _NOTHING,
    ) -> None:
        """These were acknowledged, under these ids where they are not the expected ones."""
        with self._lock:
            differing = {n: given for n, given in ids.items() if given != self._expected_id(n)}
            self._write([SentLine(tuple(ns), differing, dict(rejected))])
            for n in ns:
                self._confirm(n, differing.get(n, ""), rejected.get(n, ""))
            self._fold()

    def sync(self) -> None:
        """Force the current part to the disk."""
        os.fsync(self._file.fileno())

    def close(self, at_ms: int, skipped: int, *, ended: bool = True) -> None:
        """Write the end marker, unless the run still owes its counters: then the next one sees a
        run without an end, and tells them."""
        pending = self.pending
        with self._lock:
            if ended:
                self._write([EndLine(at_ms, pending, skipped)])
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _write(self, lines: Sequence[TruthLine]) -> None:
        text = b"".join(self._encoder.encode(line) + b"\n" for line in lines)
        self._file.write(text)
        self._written_bytes += len(text)

    def _next_part(self, first_n: int) -> None:
        path = self._directory / f"truth-{self._run.run}.{len(self._parts):04d}.jsonl"
        if self._parts:
            self._file.close()
        self._file: io.FileIO = path.open("ab", buffering=0)
        self._parts.append(_Part(path, first_n))
        self._written_bytes = 0
        self._write([self._run])

    def _part_of(self, n: int) -> _Part | None:
        return next((part for part in reversed(self._parts) if n in part.open), None)

    def _expected_id(self, n: int) -> str:
        part = self._part_of(n)
        return part.open[n].id if part else ""

    def _confirm(self, n: int, record_id: str, rejected: str) -> None:
        part = self._part_of(n)
        if part is not None:
            part.totals.confirm(part.open.pop(n), record_id, rejected)

    def _fold(self) -> None:
        """Replace finished parts by their summaries, oldest first and never out of turn: a part
        also holds acknowledgements of records of the parts before it. The newest finished part
        stays as it is: what a killed city owes is counted from its lines (`healing`), and a
        counter of the current minute may have begun there.
        """
        for part in self._parts[:-2]:
            if part.open:
                return
            if part.totals.runs:
                continue
            lines = [self._encoder.encode(line) + b"\n" for line in self._summary_lines(part)]
            replace_durably(part.path, b"".join(lines))  # a crash leaves all lines or the summary
            part.totals = TruthTotals(runs={self._run.run})  # marks it as folded

    def _summary_lines(self, part: _Part) -> list[TruthLine]:
        totals = part.totals
        rules = self._rules if part is self._parts[0] else ()
        summary = SummaryLine(
            topics=totals.topics,
            alarms=tuple(sorted(totals.alarms)),
            first_n=part.first_n,
            end_n=part.end_n,
            disagreements=totals.disagreements,
        )
        return [self._run, *rules, summary]
