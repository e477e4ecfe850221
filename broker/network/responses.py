"""Responses in the order of their requests, whatever order they become ready in.

In: a slot per request, filled at once or later. Out: the chunks that may be sent now, and how many
bytes are held. Never: sockets. Pure; a property test fills slots in every order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from broker.network.limits import MAX_IN_FLIGHT

Chunks = Sequence["bytes | bytearray | memoryview"]


class Slot:
    """The place of one response in its connection's order."""

    __slots__ = ("_queue", "chunks", "size_bytes")

    def __init__(self, queue: ResponseQueue) -> None:
        self._queue = queue
        self.chunks: Chunks | None = None
        self.size_bytes = 0

    def fill(self, chunks: Chunks) -> None:
        """Give the whole frame; an empty sequence means that no response is sent (acks=0)."""
        queue = self._queue
        if self.chunks is None and not queue.is_closed:
            self.chunks = chunks
            self.size_bytes = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
            queue.held_bytes += self.size_bytes
            queue.on_filled()


class ResponseQueue:
    """One connection's outgoing order.

    Invariant: slots leave from the head only, and only when filled; `held_bytes` is the sum of the
    filled ones, also behind one that is not, and of `expected_bytes`, which are being read.
    """

    __slots__ = ("_holder", "expected_bytes", "held_bytes", "is_closed", "on_filled", "slots")

    def __init__(self, on_filled: Callable[[], None]) -> None:
        self.on_filled = on_filled
        self.held_bytes = 0
        self.expected_bytes = 0
        self.is_closed = False
        self.slots: deque[Slot] = deque()
        self._holder: Slot | None = None

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def is_full(self) -> bool:
        """Whether no request may follow: there are many, or the newest is waited for."""
        return len(self.slots) >= MAX_IN_FLIGHT or self._holder is not None

    def open(self) -> Slot:
        """A slot behind all others."""
        slot = Slot(self)
        self.slots.append(slot)
        return slot

    def hold(self) -> None:
        """No request may follow the newest one until its response has left."""
        if self.slots:
            self._holder = self.slots[-1]

    def take_ready(self) -> list[bytes | bytearray | memoryview]:
        """Chunks of every response up to the first one that is not ready."""
        ready: list[bytes | bytearray | memoryview] = []
        slots = self.slots
        while slots:
            slot = slots[0]
            chunks = slot.chunks
            if chunks is None:
                break
            slots.popleft()
            self.held_bytes -= slot.size_bytes
            if slot is self._holder:
                self._holder = None
            ready.extend(chunks)
        return ready

    def close(self) -> None:
        """Nothing will leave any more: what is held is let go, what comes is not kept."""
        self.is_closed = True
        self.held_bytes = 0
        self.slots.clear()
