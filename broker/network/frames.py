"""Decodes a byte stream into Kafka frames (4-byte length, then that many bytes).

In: how many bytes the socket wrote into the buffer. Out: whole frames as views. Never: sockets,
requests. Frames that arrive whole are views of one buffer shared by every connection; only a frame
that arrives in parts gets its own buffer, of exactly its size, so an idle connection holds no
memory and a large batch is received where it is used (no copy).
"""

from __future__ import annotations

from broker.network.limits import INITIAL_BUFFER_BYTES, SMALL_READ_BYTES
from broker.network.memory_pool import MemoryPool

LENGTH_BYTES = 4

TLS_HANDSHAKE = 0x1603
"""What a client of TLS begins with: a handshake's record, of version 3.x. As a length of a frame it
would be 369 million."""


class FrameError(Exception):
    """The stream cannot be a Kafka client's: a length below zero or above the limit."""


class FrameDecoder:
    """One connection's incoming side.

    Invariant: between calls `_own` holds every byte received and not yet handed out, or is None.
    """

    def __init__(self, shared: memoryview, memory_pool: MemoryPool, max_frame_bytes: int) -> None:
        self._shared = shared
        self._small = shared[:SMALL_READ_BYTES]
        self._memory_pool = memory_pool
        self._max_frame_bytes = max_frame_bytes
        self._buffer: memoryview | None = None
        self._granted = 0
        self._view = shared
        self._at = 0
        self._end = 0

    def limit(self, max_frame_bytes: int) -> None:
        """Take frames up to this size from now on."""
        self._max_frame_bytes = max_frame_bytes

    @property
    def holds_memory(self) -> bool:
        """Whether a partial frame keeps memory that others may wait for."""
        return self._granted > 0

    @property
    def buffered_bytes(self) -> int:
        """Received bytes that are not yet part of a returned frame."""
        return self._end - self._at

    def writable(self) -> memoryview:
        """The buffer into which the socket may write next."""
        if self._buffer is None:
            return self._small if self._memory_pool.is_tight else self._shared
        return self._buffer[self._end :]

    def received(self, size: int) -> None:
        """`size` bytes were written into the buffer from `writable`."""
        if self._buffer is None:
            self._view, self._at, self._end = self._shared, 0, size
        else:
            self._end += size

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` would return a frame, or raise."""
        buffered_bytes = self._end - self._at
        if buffered_bytes < LENGTH_BYTES:
            return False
        length = int.from_bytes(self._view[self._at : self._at + LENGTH_BYTES], "big", signed=True)
        return length <= buffered_bytes - LENGTH_BYTES or length > self._max_frame_bytes

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
    def has_space(self) -> bool:
        """Whether more may be received before a frame is returned."""
        return self._buffer is not None and self._end < len(self._buffer)

    def compact(self, spare_bytes: int = 0) -> bool:
        """Move what is left out of the shared buffer; False if memory must be waited for.

        `spare_bytes`: space for more after it.
        """
        if self._at == self._end:
            self._release()
            return True
        needed = LENGTH_BYTES + (self._next_length() or 0)
        rest = self._end - self._at
        if self._buffer is not None:
            whole_frame_waits = needed <= rest
            has_space = self._granted >= needed and self._end < len(self._buffer)
            if whole_frame_waits or has_space:
                return True
        return self._move_to_buffer(max(needed, rest) + spare_bytes)

    def close(self) -> None:
        """Return all memory."""
        self._at = self._end = 0
        self._release()

    def _next_length(self) -> int | None:
        if self._end - self._at < LENGTH_BYTES:
            return None
        length = int.from_bytes(self._view[self._at : self._at + LENGTH_BYTES], "big", signed=True)
        if not 0 < length <= self._max_frame_bytes:
            if length >> 16 == TLS_HANDSHAKE:
                raise FrameError("its client speaks TLS, which this listener does not")
            raise FrameError(f"frame length {length} is not in 1..{self._max_frame_bytes}")
        return length

    def _move_to_buffer(self, size: int) -> bool:
        """Copy the rest to the start of its own buffer, which will grow to `size` bytes.

        Bytes in the shared buffer must be saved in any case (at most that buffer's size); the whole
        size is acquired from the pool at once, so that a started frame can be completed, but the
        buffer grows only as bytes arrive: a length alone allocates nothing.
        """
        rest = self._view[self._at : self._end]
        granted = size <= self._granted or self._memory_pool.try_acquire(size - self._granted)
        capacity = min(size, max(INITIAL_BUFFER_BYTES, 2 * len(rest))) if granted else len(rest)
        buffer = memoryview(bytearray(capacity))
        buffer[: len(rest)] = rest
        if granted:
            self._granted = max(size, self._granted)
        self._buffer = self._view = buffer
        self._at, self._end = 0, len(rest)
        return granted

    def _release(self) -> None:
        self._buffer = None
        self._view = self._shared
        self._at = self._end = 0
        if self._granted:
            granted, self._granted = self._granted, 0
            self._memory_pool.release(granted)
