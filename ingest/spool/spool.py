"""The spool: append until durable, read in sequence, acknowledge; bounded in bytes and free disk.

Survives `kill -9` at any byte: what was acknowledged is there, a torn tail is cut.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from bus.lock_file import hold_lock_file
from ingest.spool.frame import Slot, SpoolEntry, decode, decode_slot, encode
from ingest.spool.reader import SpoolReader
from ingest.spool.segment import create, load
from ingest.spool.writer import Append, SpoolWriter

# Sent as Retry-After; the bus drains a full spool at thousands per second
RETRY_AFTER_S = 5
# Statvfs is cheap but not free, and the disk does not fill faster than this
_FREE_DISK_CHECK_S = 0.25
_POSITION = "position"


class SpoolFull(Exception):
    """The stated bound is reached: nothing was taken, ask again after `retry_after_s`."""

    def __init__(self, why: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Queued(NamedTuple):
    """A message on its way, with its place in the spool."""

    sequence: int
    entry: SpoolEntry


class Spool:
    """One folder of segments.

    Invariant: `drained_sequence` ≤ read so far ≤ `end_sequence`; every message below `end_sequence`
    is durable; a segment is deleted once it lies below `drained_sequence` and, where there is a
    slot reader, below what that one keeps.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        min_free_bytes: int = 0,
        segment_bytes: int = 64 << 20,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._lock_file = _only_user(folder)
        segments, totals = load(folder)
        drained = _read_position(folder)
        if not segments:
            segments = [create(folder, drained, totals)]
        elif not segments[-1].spool:  # of an older program: what comes now is counted apart
            old = segments[-1]
            if old.end_sequence == old.first_sequence:
                segments.pop()
            segments.append(create(folder, old.end_sequence, totals, old))
        self._durable = threading.Event()
        # Small bounds get small segments: a drained part of the newest one still occupies the disk.
        self._writer = SpoolWriter(
            folder,
            segments,
            totals,
            segment_bytes=min(segment_bytes, max(max_bytes // 8, 4096)),
            on_durable=self._durable.set,
        )
        end = segments[-1].end_sequence
        self._drained = min(max(drained, segments[0].first_sequence), end)
        self._reader = SpoolReader(self._writer, self._drained, decode)
        self._kept_from: int | None = None
        self._free_checked_at, self._disk_is_full = 0.0, False

    # --- the edge's side ---

    async def append(self, entries: Sequence[SpoolEntry]) -> None:
        """Return when all are on the disk; raises `SpoolFull`, and then none is."""
        if not entries:
            return
        data = b"".join([encode(entry) for entry in entries])
        self._admit(len(data))
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def notify(error: OSError | None) -> None:
            loop.call_soon_threadsafe(_settle, done, error)

        tallies = Counter(entry.tally for entry in entries)
        self._writer.submit(Append(data, len(entries), tallies, notify))
        await done

    # --- the forwarder's side; one thread ---

    def read(self, max_messages: int) -> list[Queued]:
        """The next messages in sequence; empty when all durable ones were read."""
        self._durable.clear()
        found = self._reader.read(max_messages)
        return [Queued(sequence, entry) for sequence, entry in found]

    def wait(self, timeout_s: float) -> None:
        """Return when more may be read."""
        self._durable.wait(timeout_s)

    def wake(self) -> None:
        """End a `wait` from another thread."""
        self._durable.set()

    def acknowledge(self, end_sequence: int) -> None:
        """The bus has everything before `end_sequence`; drained segments are deleted."""
        if end_sequence <= self._drained:
            return
        self._drained = end_sequence
        _write_position(self._folder, end_sequence)
        self._delete_drained()

    def rewind(self) -> None:
        """Read again from the first message that the bus has not acknowledged."""
        self._reader.seek(self._drained)

    # --- the counting side; one thread ---

    def slot_reader(self) -> SpoolReader[Slot | None]:
        """One of slots alone that begins with the oldest message there is. From now on only
        segments before `keep_from` are deleted."""
        with self._writer.lock:
            self._kept_from = self._writer.segments[0].first_sequence
        return SpoolReader(self._writer, self._kept_from, decode_slot)

    def keep_from(self, sequence: int) -> None:
        """The slot reader needs nothing before this; it is in no segment that ends there."""
        self._kept_from = sequence

    # --- figures ---

    @property
    def end_sequence(self) -> int:
        """Messages ever made durable."""
        return self._writer.segments[-1].end_sequence

    @property
    def drained_sequence(self) -> int:
        """Messages the bus has acknowledged (or that were lost to damage, see `damaged`)."""
        return self._drained

    @property
    def damaged(self) -> int:
        """Messages of damaged files that could not be read back; reported, never silent."""
        return self._reader.damaged

    @property
    def bytes_on_disk(self) -> int:
        """The size of all segments."""
        with self._writer.lock:
            return sum(segment.end_bytes for segment in self._writer.segments)

    @property
    def totals(self) -> dict[str, int]:
        """Messages ever made durable, by tally; survives restarts."""
        with self._writer.lock:
            return dict(self._writer.totals)

    def close(self) -> None:
        """Make durable what waits, and release the folder."""
        self._writer.stop()
        self._reader.close()
        self._lock_file.close()

    def _admit(self, size: int) -> None:
        """Raise `SpoolFull` where the bound would be passed."""
        used = self.bytes_on_disk + self._writer.waiting_bytes
        if used + size > self._max_bytes:
            raise SpoolFull(f"{used} of {self._max_bytes} bytes are waiting for the bus")
        now = time.monotonic()
        if now - self._free_checked_at > _FREE_DISK_CHECK_S:
            self._free_checked_at = now
            status = os.statvfs(self._folder)
            self._disk_is_full = status.f_bavail * status.f_frsize < self._min_free_bytes
        if self._disk_is_full:
            raise SpoolFull(f"fewer than {self._min_free_bytes} bytes are free on the disk")

    def _delete_drained(self) -> None:
        kept_from = self._kept_from
        needless = self._drained if kept_from is None else min(self._drained, kept_from)
        with self._writer.lock:
            segments = self._writer.segments
            while len(segments) > 1 and segments[0].end_sequence <= needless:
                self._reader.release(segments[0])
                segments.pop(0).path.unlink(missing_ok=True)


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(SpoolFull(f"the disk did not take it: {error.strerror}"))


def _only_user(folder: Path) -> IO[str]:
    """Two processes in one spool would send everything twice."""
    try:
        return hold_lock_file(folder / "lock")
    except OSError as error:
        raise RuntimeError(f"the spool {folder} is in use by another process") from error


def _read_position(folder: Path) -> int:
    """The acknowledged sequence; a lost or damaged file means "send again": duplicates, never
    loss."""
    try:
        return int((folder / _POSITION).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _write_position(folder: Path, sequence: int) -> None:
    # Renamed, not fsynced: after a power cut an older position only sends some messages twice.
    temporary = folder / f"{_POSITION}.new"
    temporary.write_text(str(sequence))
    temporary.replace(folder / _POSITION)
