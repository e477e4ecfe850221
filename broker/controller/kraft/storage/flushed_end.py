"""`.databus_flushed_end` beside the metadata log: up to where it has been flushed.

Only what is flushed counts as stored: a leader counts its own flushed end, a follower flushes
before it fetches from its new end. So nobody was told of what is above the end that this file
names, as far as it had been written then, and everything below it is on the device.

Written after each flush, before anybody hears of it, without a flush of its own (a killed process
loses nothing of it); flushed about once a second, before the log is truncated and when it is
closed. After a loss of power it may name an earlier end, never a later one. Two slots are written
in turn, so that a torn write leaves the one before.
"""

from __future__ import annotations

from crc32c import crc32c

from broker.disk.port import Disk

FILE_NAME = ".databus_flushed_end"
SLOT_BYTES = 64
STORE_MS = 1_000
"""How old an end that is not flushed itself may become while flushes go on."""
_FIELD = 20  # digits of a 63-bit number, with room
Slot = tuple[int, int]
"""A number that grows with each write, and the end offset."""


def encode_slot(number: int, offset: int) -> bytes:
    """
    >>> len(encode_slot(7, 42)) == SLOT_BYTES, decode_slot(encode_slot(7, 42))
    (True, (7, 42))
    """
    fields = f"{number:0{_FIELD}d} {offset:0{_FIELD}d}".encode()
    return fields + f" {crc32c(fields):08x}".encode().ljust(SLOT_BYTES - len(fields) - 1) + b"\n"


def decode_slot(data: bytes) -> Slot | None:
    """None for a slot that was never written, or is torn."""
    try:
        number, offset = int(data[:_FIELD]), int(data[_FIELD : 2 * _FIELD + 1])
    except ValueError:
        return None
    return (number, offset) if encode_slot(number, offset) == data else None


class FlushedEnd:
    """The file in one directory. Invariant: `_newest` is its newest valid slot, None for none."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._newest = self._read()
        self._stored_ms = 0

    @property
    def offset(self) -> int | None:
        """Where the flushed part of the log ends; None where nobody has said so yet."""
        return None if self._newest is None else self._newest[1]

    def write(self, offset: int, now_ms: int) -> None:
        """The log is flushed up to there. Waits for the device about once a second."""
        self._write(offset, is_stored=now_ms - self._stored_ms >= STORE_MS)
        if now_ms - self._stored_ms >= STORE_MS:
            self._stored_ms = now_ms

    def store(self, offset: int) -> None:
        """The same, on the device when it returns."""
        self._write(offset, is_stored=True)

    def lower(self, offset: int) -> None:
        """The log is about to end there: what is written behind it is not flushed."""
        if self._newest is not None and self._newest[1] > offset:
            self._write(offset, is_stored=True)

    def _write(self, offset: int, *, is_stored: bool) -> None:
        is_new = not self._disk.exists(self._path)
        number = self._newest[0] + 1 if self._newest is not None else 1
        file = self._disk.open(self._path, create=True)
        try:
            if is_new:
                file.append(bytes(2 * SLOT_BYTES))
            file.write_at(number % 2 * SLOT_BYTES, encode_slot(number, offset))
            if is_stored or is_new:
                file.flush()
        finally:
            file.close()
        if is_new:
            self._disk.flush_directory(self._directory)
        self._newest = (number, offset)

    def _read(self) -> Slot | None:
        if not self._disk.exists(self._path):
            return None
        file = self._disk.open(self._path)
        try:
            slots = [decode_slot(file.read(place * SLOT_BYTES, SLOT_BYTES)) for place in range(2)]
        finally:
            file.close()
        return max((slot for slot in slots if slot is not None), default=None)
