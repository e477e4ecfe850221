"""The thread that makes appended frames durable: all waiting frames share one write and one fsync.

While one fsync runs the next group gathers, so the wait is at most two fsyncs and no timer is
needed.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ingest.spool.segment import SpoolSegment, create

# One group is one write: enough for thousands of records, small enough to answer the first of them
# soon.
MAX_GROUP_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Append:
    """Frames that become durable together, and whom to tell: None, or what went wrong."""

    data: bytes
    messages: int
    tallies: Counter[str]
    done: Callable[[OSError | None], None]


class SpoolWriter:
    """Owns the newest segment's file.

    Invariant: `segments[-1].end_bytes` and `end_sequence` cover exactly what is fsynced; `totals`
    counts it.
    """

    def __init__(
        self,
        folder: Path,
        segments: list[SpoolSegment],
        totals: Counter[str],
        *,
        segment_bytes: int,
        on_durable: Callable[[], None],
    ) -> None:
        self.segments = segments
        self.totals = totals
        self.lock = threading.Lock()  # guards segments, their ends and totals
        self.waiting_bytes = 0
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._on_durable = on_durable
        self._waiting: list[Append] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._fd = os.open(segments[-1].path, os.O_WRONLY)
        self._thread = threading.Thread(target=self._run, name="spool-writer", daemon=True)
        self._thread.start()

    def submit(self, append: Append) -> None:
        """Queue frames; their callback comes from the writer's thread."""
        with self._wake:
            self._waiting.append(append)
            self.waiting_bytes += len(append.data)
            self._wake.notify()

    def stop(self) -> None:
        """Write what waits, then end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        os.close(self._fd)

    def _run(self) -> None:
        while group := self._next_group():
            error = self._write(group)
            for append in group:
                append.done(error)
            if error is None:
                self._on_durable()

    def _next_group(self) -> list[Append]:
        """What waits, up to the bound; empty when the spool is being closed."""
        with self._wake:
            while not self._waiting and not self._stopping:
                self._wake.wait()
            size, count = 0, 0
            for append in self._waiting:
                if count and size + len(append.data) > MAX_GROUP_BYTES:
                    break
                size, count = size + len(append.data), count + 1
            group, self._waiting = self._waiting[:count], self._waiting[count:]
            self.waiting_bytes -= size
            return group

    def _write(self, group: list[Append]) -> OSError | None:
        """One write, one fsync. On failure the file is as before: the next group may find room."""
        try:
            if self.segments[-1].end_bytes >= self._segment_bytes:
                self._roll()
            segment = self.segments[-1]
            data = b"".join(append.data for append in group)
            _write_all(self._fd, data, segment.end_bytes)
            os.fdatasync(self._fd)
        except OSError as error:
            self._undo()
            return error
        with self.lock:
            segment.end_bytes += len(data)
            for append in group:
                segment.end_sequence += append.messages
                self.totals.update(append.tallies)
        return None

    def _roll(self) -> None:
        """Begin the next segment; the old one is whole and fsynced."""
        last = self.segments[-1]
        new = create(self._folder, last.end_sequence, self.totals, last)
        fd = os.open(new.path, os.O_WRONLY)
        os.close(self._fd)
        self._fd = fd
        with self.lock:
            self.segments.append(new)

    def _undo(self) -> None:
        """Cut what a failed write left; if even that fails, the next write starts at the same
        place."""
        try:
            os.ftruncate(self._fd, self.segments[-1].end_bytes)
        except OSError:
            return


def _write_all(fd: int, data: bytes, offset: int) -> None:
    """`pwrite` may write less than asked on a disk that is filling up."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
