"""One file of the spool: `<first sequence number>.spool`, its header, its recovery after a crash.

The header carries the totals up to the segment's beginning, so that they outlive the files before
it.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec

from bus.files.durable_file import sync_folder
from bus.runtime import wall_clock
from ingest.spool.frame import decode, frame, payloads

log = logging.getLogger(__name__)

SUFFIX = ".spool"
_HEADER_BYTES = 1 << 20
"""A header is a frame of a few kilobytes: a total per class and outcome."""


class SpoolHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First frame of every segment. `totals`: tally -> messages before this segment. `spool`: a
    name that its spool was given when it began; `epoch`: when the segment was made (epoch ms),
    later than the one before. Both are empty in a file of an older program."""

    version: int = 1
    first_sequence: int
    totals: dict[str, int]
    spool: str = ""
    epoch: int = 0


class SpoolSegment(msgspec.Struct, kw_only=True):
    """A segment on disk. Invariant: bytes before `end_bytes` are whole frames, fsynced if it is
    sealed."""

    path: Path
    first_sequence: int
    end_sequence: int
    data_start: int
    end_bytes: int
    spool: str
    epoch: int


def create(
    folder: Path, first_sequence: int, totals: Counter[str], before: SpoolSegment | None = None
) -> SpoolSegment:
    """A new empty segment; durable, with its name, when this returns."""
    path = folder / f"{first_sequence:020d}{SUFFIX}"
    spool = (before.spool if before else "") or uuid.uuid4().hex
    epoch = max(wall_clock.now_ms(), before.epoch + 1 if before else 0)
    header = SpoolHeader(
        first_sequence=first_sequence, totals=dict(totals), spool=spool, epoch=epoch
    )
    data = frame(msgspec.msgpack.encode(header))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(folder)
    return SpoolSegment(
        path=path,
        first_sequence=first_sequence,
        end_sequence=first_sequence,
        data_start=len(data),
        end_bytes=len(data),
        spool=spool,
        epoch=epoch,
    )


def load(folder: Path) -> tuple[list[SpoolSegment], Counter[str]]:
    """All segments in sequence and the totals after the last; a torn tail of the last is cut off.

    A file without a whole header was being created when the process died and holds nothing.
    """
    segments, totals = list[SpoolSegment](), Counter[str]()
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        # Of those before the last only the header counts: what follows says how many they hold.
        scanned = _scan(path, totals, is_last=not segments)
        if scanned is None:
            path.unlink()
        else:
            segments.insert(0, scanned)
    for earlier, later in pairwise(segments):
        # Sealed whole: should it have been damaged since, the reader finds out and counts what is
        # lost.
        earlier.end_sequence = later.first_sequence
        earlier.end_bytes = earlier.path.stat().st_size
    if segments:
        _truncate(segments[-1])
    return segments, totals


def _scan(path: Path, totals: Counter[str], *, is_last: bool) -> SpoolSegment | None:
    """The last one: count the frames; `totals` becomes what the header says plus what follows."""
    with path.open("rb") as file:
        data = file.read(-1 if is_last else _HEADER_BYTES)
    found = payloads(data)
    try:
        first, offset = next(found)
        header = msgspec.msgpack.decode(first, type=SpoolHeader)
    except (StopIteration, msgspec.DecodeError):
        return None
    segment = SpoolSegment(
        path=path,
        first_sequence=header.first_sequence,
        end_sequence=header.first_sequence,
        data_start=offset,
        end_bytes=offset,
        spool=header.spool,
        epoch=header.epoch,
    )
    if not is_last:
        return segment
    totals.update(header.totals)
    for payload, end in found:
        totals[decode(payload).tally] += 1
        segment.end_sequence += 1
        segment.end_bytes = end
    return segment


def _truncate(segment: SpoolSegment) -> None:
    """Drop what was being written at the crash; it was never acknowledged."""
    torn = segment.path.stat().st_size - segment.end_bytes
    if torn > 0:
        log.warning("%s: cut %d bytes of an unfinished write", segment.path, torn)
        os.truncate(segment.path, segment.end_bytes)
