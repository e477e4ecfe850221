"""One simulated file: its content in the page cache, and what a power loss leaves of it.

In: writes, truncations, flushes. Out: bytes; after `lose_power` one of the contents that the device
may hold: a prefix of the unflushed operations in their order, the next one torn, or pages in the
middle of an unflushed append that never reached the device. Never: an operation before the last
flush undone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PAGE_BYTES = 4096
MOST_UNDO_ENTRIES = 4096
"""An unflushed file with more operations has its oldest ones written back, as the kernel does."""


@dataclass(slots=True)
class Undo:
    """How to undo one unflushed operation: the previous bytes at `position` and the previous
    size."""

    position: int
    old: bytes
    old_size: int
    appended: int


class Inode:
    """Invariant: undoing `journal` from its end to its start gives the flushed content."""

    __slots__ = ("data", "journal", "made_at", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.journal: list[Undo] = []
        self.modified_ms = now_ms
        self.made_at = -1
        """Place in the disk's journal of names while its creation is not durable, else -1."""

    def write(self, position: int, new: bytes | bytearray | memoryview) -> None:
        """Writes bytes at a position, which may be the end."""
        size = len(self.data)
        if position > size:
            self._journal(Undo(size, b"", size, position - size))
            self.data.extend(bytes(position - size))
            size = position
        end = position + len(new)
        old = bytes(self.data[position : min(end, size)])
        self._journal(Undo(position, old, size, max(end - size, 0)))
        self.data[position:end] = new

    def truncate(self, size: int) -> None:
        """Truncates, or extends with zeros."""
        now = len(self.data)
        if size < now:
            self._journal(Undo(size, bytes(self.data[size:]), now, 0))
            del self.data[size:]
        elif size > now:
            self._journal(Undo(now, b"", now, size - now))
            self.data.extend(bytes(size - now))

    def flush(self) -> None:
        """Makes all content durable."""
        self.journal.clear()

    def lose_power(self, dice: random.Random) -> int:
        """Reverts to what the device holds; returns how many operations were lost or damaged."""
        count = len(self.journal)
        if not count:
            return 0
        mood = dice.random()
        kept = count if mood < 0.25 else 0 if mood < 0.5 else dice.randrange(0, count + 1)
        torn = self.journal[kept] if kept < count else None
        tail = b""
        if torn is not None and torn.appended > 1 and dice.random() < 0.5:
            end = torn.old_size + dice.randrange(1, torn.appended)
            tail = bytes(self._undone_to(kept + 1)[torn.old_size : end])
        for undo in reversed(self.journal[kept:]):
            _revert(self.data, undo)
        if torn is not None and len(self.data) == torn.old_size:
            self.data.extend(tail)
        harmed = count - kept + self._punch_hole(dice, self.journal[:kept])
        self.journal.clear()
        return harmed

    def _undone_to(self, index: int) -> bytearray:
        content = bytearray(self.data)
        for undo in reversed(self.journal[index:]):
            _revert(content, undo)
        return content

    def _punch_hole(self, dice: random.Random, kept: list[Undo]) -> int:
        """Zeros a page in the middle: the size reached the device, the page did not."""
        appends = [undo for undo in kept if undo.appended]
        if not appends or dice.random() > 0.3:
            return 0
        start = appends[dice.randrange(0, len(appends))].old_size
        end = min(start + PAGE_BYTES - start % PAGE_BYTES, len(self.data))
        if start >= end:
            return 0
        self.data[start:end] = bytes(end - start)
        return 1

    def _journal(self, undo: Undo) -> None:
        self.journal.append(undo)
        if len(self.journal) > MOST_UNDO_ENTRIES:
            del self.journal[: MOST_UNDO_ENTRIES // 2]


def _revert(content: bytearray, undo: Undo) -> None:
    content[undo.position : undo.position + len(undo.old)] = undo.old
    del content[undo.old_size :]
