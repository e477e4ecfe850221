"""Where the messages of a segment lie on the bus: a file beside it, appended as they are delivered.

In: `Delivered` rows. Out: the same after a crash; a torn tail is cut. Never: an fsync: what a power
cut takes is sent again, which makes duplicates and no loss.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ingest.spool.frame import frame, payloads
from ingest.spool.retained_records import Delivered
from ingest.spool.segment import SpoolSegment

SUFFIX = ".places"
_ROW = struct.Struct("<QHiq")
"""Sequence, number of the topic in `topics`, partition, offset."""
ROWS_AT_ONCE = 10_000


class PlacesFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One append. `rows` are packed as `_ROW`."""

    topics: list[str]
    rows: bytes


_DECODER = msgspec.msgpack.Decoder(PlacesFrame)


def places_path(segment: SpoolSegment) -> Path:
    """The file of a segment's messages."""
    return segment.path.with_suffix(SUFFIX)


def append_places(segments: Iterable[SpoolSegment], rows: Sequence[Delivered]) -> None:
    """Each row to the file of its segment; `rows` ascend. Raises OSError, and then some may be
    there: they will come again."""
    left = list(rows)
    for segment in segments:
        if not left:
            return
        mine = [row for row in left if row.sequence < segment.end_sequence]
        for at in range(0, len(mine), ROWS_AT_ONCE):
            _append(places_path(segment), encode_rows(mine[at : at + ROWS_AT_ONCE]))
        left = left[len(mine) :]


def encode_rows(rows: Sequence[Delivered]) -> bytes:
    """One frame."""
    numbers: dict[str, int] = {}
    packed = b"".join(
        [
            _ROW.pack(row.sequence, numbers.setdefault(row.topic, len(numbers)), *row[2:])
            for row in rows
        ]
    )
    return frame(msgspec.msgpack.encode(PlacesFrame(topics=list(numbers), rows=packed)))


def decode_rows(data: bytes) -> tuple[list[Delivered], int]:
    """The rows of whole frames, and where those end."""
    rows: list[Delivered] = []
    end = 0
    for payload, after in payloads(data):
        try:
            rows.extend(_rows(_DECODER.decode(payload)))
        except (msgspec.MsgspecError, ValueError, struct.error, IndexError):
            break
        end = after
    return rows, end


def load_places(segment: SpoolSegment) -> dict[int, Delivered]:
    """By sequence, the newest row of each; a torn tail is cut off."""
    path = places_path(segment)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    rows, end = decode_rows(data)
    if end < len(data):
        os.truncate(path, end)
    return {row.sequence: row for row in rows}


def _rows(one: PlacesFrame) -> Iterator[Delivered]:
    for sequence, topic, partition, offset in _ROW.iter_unpack(one.rows):
        yield Delivered(sequence, one.topics[topic], partition, offset)


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        size = os.fstat(fd).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            os.ftruncate(fd, size)  # half a frame would hide all that come after it
            raise
    finally:
        os.close(fd)
