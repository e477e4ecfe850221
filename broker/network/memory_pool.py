"""The memory of all requests that are being received, bounded for the whole broker.

In: sizes of frames about to be read. Out: granted, or a place in the queue. Never: sockets.
A partial frame of a slow client keeps its memory until it is complete, or until others wait and it
has made no progress (`Listener.close_stalled`), so the queue always moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.network.limits import READ_BUFFER_BYTES


class MemoryPool:
    """Bytes that all partially received frames may occupy together.

    Invariant: `used_bytes` is the sum of what `take` granted and `give` has not returned.
    One frame larger than the whole budget is granted when nothing else is held; the frame
    size limit bounds it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._tight_from = limit_bytes - READ_BUFFER_BYTES
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_tight(self) -> bool:
        """Whether a whole read could not be kept within the limit."""
        return 0 < self.used_bytes > self._tight_from

    def try_acquire(self, size: int) -> bool:
        """Grant `size` bytes if they fit."""
        if self.used_bytes and self.used_bytes + size > self.limit_bytes:
            return False
        self.used_bytes += size
        return True

    def release(self, size: int) -> None:
        """Return `size` bytes and let waiting connections retry, in their sequence."""
        self.used_bytes -= size
        for _ in range(len(self._waiting)):
            if self.used_bytes >= self.limit_bytes:
                break
            self._waiting.popleft()()

    @property
    def is_short(self) -> bool:
        """Whether any connection waits."""
        return bool(self._waiting)

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` once when memory may be available."""
        self._waiting.append(retry)
