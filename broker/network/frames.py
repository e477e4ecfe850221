"""Cutting a byte stream into Kafka frames (4-byte length, then that many bytes).

In: how many bytes the socket put into the buffer we lent it. Out: whole frames as views.
Never: sockets, requests. Frames that arrive whole are views of one buffer shared by every
connection; only a frame that arrives in parts gets a buffer of its own, of exactly its size, so
an idle connection holds no memory and a large batch is received where it is used (no copy).
"""

from __future__ import annotations

from broker.network.budget import ReceiveBudget
from broker.network.limits import GROW_FROM_BYTES, READ_LITTLE_BYTES

LENGTH_BYTES = 4


class FrameError(Exception):
    """The stream cannot be a Kafka client's: a length below zero or above the limit."""


class FrameCutter:
    """One connection's incoming side.

    Invariant: between calls `_own` holds every byte received and not yet handed out, or is None.
    """

    def __init__(self, shared: memoryview, budget: ReceiveBudget, max_frame_bytes: int) -> None:
        self._shared = shared
        self._little = shared[:READ_LITTLE_BYTES]
        self._budget = budget
        self._max_frame_bytes = max_frame_bytes
        self._own: memoryview | None = None
        self._granted = 0
        self._view = shared
        self._at = 0
        self._end = 0

    @property
    def holds_budget(self) -> bool:
        """Whether a half frame keeps memory that others may wait for."""
        return self._granted > 0

    @property
    def held_bytes(self) -> int:
        """Bytes received that are not yet part of a frame handed out."""
        return self._end - self._at

    def writable(self) -> memoryview:
        """Where the socket may write next."""
        if self._own is None:
            return self._little if self._budget.is_tight else self._shared
        return self._own[self._end :]

    def received(self, size: int) -> None:
        """`size` bytes were written into what `writable` lent."""
        if self._own is None:
            self._view, self._at, self._end = self._shared, 0, size
        else:
            self._end += size

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` would give one, or raise."""
        held_bytes = self._end - self._at
        if held_bytes < LENGTH_BYTES:
            return False
        length = int.from_bytes(self._view[self._at : self._at + LENGTH_BYTES], "big", signed=True)
        return length <= held_bytes - LENGTH_BYTES or length > self._max_frame_bytes

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None. Raises `FrameError`.

        The view is valid until `keep_rest`.
        """
        length = self._next_length()
        if length is None or self._end - self._at - LENGTH_BYTES < length:
            return None
        start = self._at + LENGTH_BYTES
        self._at = start + length
        return self._view[start : self._at]

    @property
    def has_room(self) -> bool:
        """Whether more may be received before anything is handed out."""
        return self._own is not None and self._end < len(self._own)

    def keep_rest(self, spare_bytes: int = 0) -> bool:
        """Move what is left out of the shared buffer; False if memory must be waited for.

        `spare_bytes`: room for more behind it.
        """
        if self._at == self._end:
            self._release()
            return True
        needed = LENGTH_BYTES + (self._next_length() or 0)
        rest = self._end - self._at
        if self._own is not None:
            whole_frame_waits = needed <= rest
            has_room = self._granted >= needed and self._end < len(self._own)
            if whole_frame_waits or has_room:
                return True
        return self._move_rest(max(needed, rest) + spare_bytes)

    def close(self) -> None:
        """Give all memory back."""
        self._at = self._end = 0
        self._release()

    def _next_length(self) -> int | None:
        if self._end - self._at < LENGTH_BYTES:
            return None
        length = int.from_bytes(self._view[self._at : self._at + LENGTH_BYTES], "big", signed=True)
        if not 0 < length <= self._max_frame_bytes:
            raise FrameError(f"frame length {length} is not in 1..{self._max_frame_bytes}")
        return length

    def _move_rest(self, size: int) -> bool:
        """Copy the rest to the start of a buffer of its own, on the way to `size` bytes.

        What lies in the shared buffer must be saved in any case (it is small, at most that
        buffer); the whole size is taken from the budget at once, so that what is begun can end,
        but memory follows only as bytes arrive: a length alone costs the sender nothing.
        """
        rest = self._view[self._at : self._end]
        granted = size <= self._granted or self._budget.take(size - self._granted)
        room = min(size, max(GROW_FROM_BYTES, 2 * len(rest))) if granted else len(rest)
        own = memoryview(bytearray(room))
        own[: len(rest)] = rest
        if granted:
            self._granted = max(size, self._granted)
        self._own = self._view = own
        self._at, self._end = 0, len(rest)
        return granted

    def _release(self) -> None:
        self._own = None
        self._view = self._shared
        self._at = self._end = 0
        if self._granted:
            granted, self._granted = self._granted, 0
            self._budget.give(granted)
