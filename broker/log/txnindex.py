"""The index of aborted transactions of a segment (``.txnindex``).

Records aborted transactions as their markers are appended, and returns those that touch a range of
offsets, which a read-committed consumer must skip.

An entry has 34 bytes: version i16 (0), producer id, first offset, last offset, last stable offset
(i64 each). Aborts are rare, so the entries of all segments stay in memory.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from broker.disk.port import Disk

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; ``last_stable_offset`` is the log's when the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers lie in one segment."""

    __slots__ = ("_disk", "entries", "path")

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self.entries: list[AbortedTransaction] = []

    def load(self) -> None:
        """Read the file, if there is one; a partial last entry is left out."""
        if not self._disk.exists(self.path):
            return
        file = self._disk.open(self.path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        whole = data[: len(data) // ENTRY.size * ENTRY.size]
        self.entries = [AbortedTransaction(*fields[1:]) for fields in ENTRY.iter_unpack(whole)]

    def create(self) -> None:
        """Make the file even if nothing is appended."""
        self._write(b"")

    def append(self, aborted: AbortedTransaction) -> None:
        """Add one and write it: only reading the whole log would find it otherwise."""
        self.entries.append(aborted)
        self._write(ENTRY.pack(VERSION, *aborted))

    def clear_from(self, offset: int) -> None:
        """Forget the transactions whose markers lie at or after ``offset``."""
        if not self._disk.exists(self.path):
            return
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        self._disk.remove(self.path)
        self.entries = []
        for entry in kept:
            self.append(entry)

    def touching(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions with records in [start, end)."""
        return [
            entry
            for entry in self.entries
            if entry.last_offset >= start_offset and entry.first_offset < end_offset
        ]

    def _write(self, data: bytes) -> None:
        file = self._disk.open(self.path, create=True)
        try:
            file.append(data)
        finally:
            file.close()
