"""The spool: append until durable, read in sequence, acknowledge; bounded in bytes and free disk.

Survives `kill -9` at any byte: what was acknowledged is there, a torn tail is cut.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from bus.files.lock_file import hold_lock_file
from ingest.spool.frame import Slot, SpoolEntry, decode, decode_slot, encode
from ingest.spool.queued import Queued
from ingest.spool.reader import SpoolReader
from ingest.spool.retained_records import Delivered, Ends, Place
from ingest.spool.retained_segments import (
    RetainedReader,
    RetainedSegments,
    delete_places,
    forget_retained,
)
from ingest.spool.segment import SpoolSegment, create, load
from ingest.spool.writer import Append, SpoolWriter

# Sent as Retry-After; the bus drains a full spool at thousands per second
RETRY_AFTER_S = 5
# Statvfs is cheap but not free, and the disk does not fill faster than this
_FREE_DISK_CHECK_S = 0.25
_RETAINED_CHECK_S = 0.25
_POSITION = "position"


class SpoolFull(Exception):
    """The stated bound is reached: nothing was taken, ask again after `retry_after_s`."""

    def __init__(self, why: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Spool:
    """One folder of segments.

    Invariant: `drained_sequence` ≤ read so far ≤ `end_sequence`; every message below `end_sequence`
    is durable; a segment is deleted once it lies below `drained_sequence`, where there is a slot
    reader below what that one keeps, and where messages are kept below what the second site has.
    Deletions are the forwarder's thread's alone.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        min_free_bytes: int = 0,
        segment_bytes: int = 64 << 20,
        retained_max_bytes: int = 0,
    ) -> None:
        """`retained_max_bytes`: kept for the second site, beside `max_bytes`; 0: nothing."""
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
        end = segments[-1].end_sequence
        drained = min(max(drained, segments[0].first_sequence), end)
        self._retained = _open_retained(folder, segments, drained, retained_max_bytes)
        self._retained_max_bytes = retained_max_bytes
        self._durable = threading.Event()
        # Small bounds get small segments: a drained part of the newest one still occupies the disk.
        smallest = min(max_bytes, retained_max_bytes or max_bytes) // 8
        self._writer = SpoolWriter(
            folder,
            segments,
            totals,
            segment_bytes=min(segment_bytes, max(smallest, 4096)),
            on_durable=self._durable.set,
        )
        self._drained = drained if self._retained is None else self._retained.drained
        self._reader = SpoolReader(self._writer, self._drained, decode)
        self._counted_from: int | None = None
        self._is_recount = False
        self._counted: deque[tuple[int, Ends]] = deque()  # first sequence of a segment, ends
        self._free_checked_at, self._disk_is_full = 0.0, False
        self._retained_checked_at = 0.0

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

    def wait(self, timeout_s: float) -> bool:
        """Return when more may be read or somebody called `wake`; whether that was so. Each is
        heard once: a reader that may not read just now would be woken by the same one for ever."""
        is_woken = self._durable.wait(timeout_s)
        self._durable.clear()
        return is_woken

    def wake(self) -> None:
        """End a `wait` from another thread."""
        self._durable.set()

    def acknowledge(self, end_sequence: int, rows: Sequence[Delivered] = ()) -> None:
        """The bus has everything before `end_sequence`, the new messages where `rows` say;
        segments that nobody needs are deleted."""
        retained = self._retained
        if end_sequence <= self._drained:
            checked_s = time.monotonic() - self._retained_checked_at
            if retained is not None and checked_s > _RETAINED_CHECK_S:
                self._delete_needless()
            return
        if retained is not None:
            retained.on_delivered(end_sequence, rows, self._segments())
        self._drained = end_sequence
        _write_position(self._folder, end_sequence)
        self._delete_needless()

    def rewind(self) -> None:
        """Read again from the first message that the bus has not acknowledged."""
        self._reader.seek(self._drained)

    def retained_reader(self, held: Mapping[Place, int]) -> RetainedReader:
        """What is kept and lies beyond these ends."""
        segments = self._segments()
        released = self._retained.released if self._retained is not None else self._drained
        start = min(max(released, segments[0].first_sequence), self._drained)
        return RetainedReader(SpoolReader(self._writer, start, decode), self._drained, held)

    def release_retained(self) -> None:
        """The site that is sent to from now on has everything before `drained_sequence`. What
        arrived is counted again for it, from the oldest segment there is."""
        if self._retained is None:
            return
        with self._writer.lock:
            if self._counted_from is not None:
                self._counted_from, self._is_recount = self._writer.segments[0].first_sequence, True
            self._counted.clear()
        self._retained.reset(self._drained)

    # --- the second site's side; any thread ---

    def confirm(self, confirmed: Mapping[Place, int]) -> None:
        """Up to these offsets the second site has the records."""
        if self._retained is not None:
            self._retained.on_confirmed(confirmed)

    # --- the counting side; one thread ---

    def slot_reader(self) -> SpoolReader[Slot | None]:
        """One of slots alone that begins with the oldest message there is. From now on only
        segments before `keep_from` are deleted."""
        with self._writer.lock:
            self._counted_from = self._writer.segments[0].first_sequence
            self._is_recount = False
        return SpoolReader(self._writer, self._counted_from, decode_slot)

    def keep_from(self, sequence: int, ends: Mapping[Place, int] = MappingProxyType({})) -> None:
        """The slot reader needs nothing before this; it is in no segment that ends there. `ends`:
        the ends of what it has sent of the segment before, which the second site has to have,
        too."""
        with self._writer.lock:
            if self._is_recount or self._counted_from is None:
                return
            if self._retained is not None:
                self._counted.append((self._counted_from, dict(ends)))
            self._counted_from = sequence

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
    def waiting_bytes(self) -> int:
        """Of the segments that are not only kept: what `max_bytes` bounds."""
        return self.bytes_on_disk - self.retained_bytes

    @property
    def retained_bytes(self) -> int:
        """Of the segments that are there for the second site alone."""
        if self._retained is None:
            return 0
        needless = self._needless()
        with self._writer.lock:
            sealed = self._writer.segments[:-1]
            return sum(each.end_bytes for each in sealed if each.end_sequence <= needless)

    @property
    def retained_messages(self) -> int:
        """Messages that the bus has, the second site is not known to have, and that are here."""
        if self._retained is None:
            return 0
        first = max(self._retained.released, self._segments()[0].first_sequence)
        return max(0, self._drained - first)

    @property
    def uncovered_messages(self) -> int:
        """Messages that had to be deleted before the second site was known to have them."""
        return self._retained.uncovered if self._retained is not None else 0

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
        used = self.waiting_bytes + self._writer.waiting_bytes
        if used + size > self._max_bytes:
            raise SpoolFull(f"{used} of {self._max_bytes} bytes are waiting for the bus")
        now = time.monotonic()
        if now - self._free_checked_at > _FREE_DISK_CHECK_S:
            self._free_checked_at = now
            status = os.statvfs(self._folder)
            self._disk_is_full = status.f_bavail * status.f_frsize < self._min_free_bytes
        if self._disk_is_full:
            raise SpoolFull(f"fewer than {self._min_free_bytes} bytes are free on the disk")

    def _segments(self) -> list[SpoolSegment]:
        with self._writer.lock:
            return list(self._writer.segments)

    def _needless(self) -> int:
        """Up to where neither the bus nor the counting needs a message."""
        counted_from = self._counted_from
        return self._drained if counted_from is None else min(self._drained, counted_from)

    def _delete_needless(self) -> None:
        needless, retained = self._needless(), self._retained
        if retained is None:
            self._delete_before(needless)
            return
        self._retained_checked_at = time.monotonic()
        self._delete_before(min(needless, retained.released, self._counted_until(retained)))
        while (end := self._overflow_end(needless)) is not None:
            retained.on_dropped(end)
            self._delete_before(end)

    def _counted_until(self, retained: RetainedSegments) -> int:
        """The first segment whose counts the second site is not known to have."""
        with self._writer.lock:
            while self._counted and (
                self._counted[0][0] < self._writer.segments[0].first_sequence
                or retained.is_confirmed(self._counted[0][1])
            ):
                self._counted.popleft()
            return self._counted[0][0] if self._counted else self._drained

    def _overflow_end(self, needless: int) -> int | None:
        """The end of the oldest kept segment where too many are kept, or where the disk is nearly
        as full as refuses senders."""
        oldest = self._segments()[0]
        retained_bytes = self.retained_bytes
        if retained_bytes == 0 or oldest.end_sequence > needless:
            return None
        status = os.statvfs(self._folder)
        free_bytes = status.f_bavail * status.f_frsize
        is_short = free_bytes < self._min_free_bytes + 2 * oldest.end_bytes
        is_over = retained_bytes > self._retained_max_bytes
        return oldest.end_sequence if is_over or is_short else None

    def _delete_before(self, sequence: int) -> None:
        with self._writer.lock:
            segments = self._writer.segments
            while len(segments) > 1 and segments[0].end_sequence <= sequence:
                self._reader.release(segments[0])
                gone = segments.pop(0)
                gone.path.unlink(missing_ok=True)
                delete_places(gone)


def _open_retained(
    folder: Path, segments: Sequence[SpoolSegment], drained: int, max_bytes: int
) -> RetainedSegments | None:
    if max_bytes:
        return RetainedSegments(folder, segments, drained)
    forget_retained(folder)
    return None


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
