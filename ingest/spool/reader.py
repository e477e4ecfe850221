"""Reads a spool in sequence while it is being written.

A frame that is damaged inside (bit rot, a foreign hand) ends its segment: the rest is counted as
damaged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from ingest.spool.frame import payloads
from ingest.spool.segment import SpoolSegment
from ingest.spool.writer import SpoolWriter

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 20


Read = TypeVar("Read")


class SpoolReader(Generic[Read]):
    """Invariant: the next message has number `sequence` and begins at `offset` of `segment`."""

    def __init__(
        self, writer: SpoolWriter, sequence: int, decode: Callable[[memoryview], Read]
    ) -> None:
        """`decode`: what is wanted of each message."""
        self.damaged = 0
        self._decode = decode
        self._writer = writer
        self._fd = -1
        self.seek(sequence)

    def seek(self, sequence: int) -> None:
        """Go on at `sequence`, which must not be deleted."""
        segments = self._writer.segments
        found = next((s for s in segments if sequence < s.end_sequence), segments[-1])
        self._enter(found)
        self._skip_to = sequence

    def read(
        self, max_messages: int, *, within_segment: bool = False
    ) -> list[tuple[int, Read]]:
        """Up to `max_messages` of what is durable; empty when all of it was read, or, within the
        segment, when that was."""
        messages: list[tuple[int, Read]] = []
        while len(messages) < max_messages:
            data = self._read_chunk()
            if not data:
                if within_segment or not self._next_segment():
                    break
                continue
            self._decode_chunk(data, messages, max_messages)
        return messages

    def release(self, segment: SpoolSegment) -> None:
        """The segment is about to be deleted."""
        if segment is self._segment:
            self._next_segment()

    @property
    def sequence(self) -> int:
        """Of the next message."""
        return max(self._sequence, self._skip_to)

    @property
    def segment(self) -> SpoolSegment:
        """Where the next message lies, or would."""
        return self._segment

    def enter_next(self) -> bool:
        """Move on from a segment that was read to its end; False if it was not, or is the
        newest."""
        return self._next_segment()

    def close(self) -> None:
        """Release the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _enter(self, segment: SpoolSegment) -> None:
        self.close()
        self._segment = segment
        self._sequence, self._offset = segment.first_sequence, segment.data_start
        self._chunk_bytes = _READ_BYTES
        self._fd = os.open(segment.path, os.O_RDONLY)

    def _read_chunk(self) -> bytes:
        left = self._segment.end_bytes - self._offset
        return os.pread(self._fd, min(left, self._chunk_bytes), self._offset) if left > 0 else b""

    def _decode_chunk(
        self, data: bytes, messages: list[tuple[int, Read]], max_messages: int
    ) -> None:
        """Messages of a chunk that ends anywhere."""
        start = self._offset
        for payload, end in payloads(data):
            if self._sequence >= self._skip_to:
                self._decode_one(payload, messages)
            self._sequence += 1
            self._offset = start + end
            if len(messages) >= max_messages:
                return
        if self._offset == start:
            self._grow_or_give_up(len(data))
        else:
            self._chunk_bytes = _READ_BYTES

    def _decode_one(self, payload: memoryview, messages: list[tuple[int, Read]]) -> None:
        try:
            messages.append((self._sequence, self._decode(payload)))
        except msgspec.MsgspecError as error:  # whole, but no message: it would be none ever after
            self.damaged += 1
            log.error("message %d in %s is none: %s", self._sequence, self._segment.path, error)

    def _grow_or_give_up(self, had_bytes: int) -> None:
        """No whole message: it is longer than the chunk, or damaged."""
        left = self._segment.end_bytes - self._offset
        if had_bytes < left:
            self._chunk_bytes = min(self._chunk_bytes * 4, left)
            return
        lost = self._segment.end_sequence - self._sequence
        self.damaged += lost
        log.error(
            "%s is damaged at byte %d: %d messages lost", self._segment.path, self._offset, lost
        )
        self._sequence, self._offset = self._segment.end_sequence, self._segment.end_bytes

    def _next_segment(self) -> bool:
        """Move on; False when this is the newest."""
        segments = self._writer.segments
        later = [s for s in segments if s.first_sequence >= self._segment.end_sequence]
        if self._segment is segments[-1] or not later or self._offset < self._segment.end_bytes:
            return False
        self._enter(later[0])
        return True
