"""Responses in the order of their requests, whatever order they become ready in.

In: a slot per request, filled at once or later. Out: the chunks that may be sent now.
Never: sockets. Pure; a property test fills slots in every order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

Chunks = Sequence["bytes | bytearray | memoryview"]


class Slot:
    """The place of one response in its connection's order."""

    __slots__ = ("_on_filled", "chunks")

    def __init__(self, on_filled: Callable[[], None]) -> None:
        self._on_filled = on_filled
        self.chunks: Chunks | None = None

    def fill(self, chunks: Chunks) -> None:
        """Give the whole frame; an empty sequence means that no response is sent (acks=0)."""
        if self.chunks is None:
            self.chunks = chunks
            self._on_filled()


class ResponseQueue:
    """One connection's outgoing order.

    Invariant: slots leave from the head only, and only when filled.
    """

    __slots__ = ("_on_filled", "_slots")

    def __init__(self, on_filled: Callable[[], None]) -> None:
        self._on_filled = on_filled
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def open(self) -> Slot:
        """A slot behind all others."""
        slot = Slot(self._on_filled)
        self._slots.append(slot)
        return slot

    def take_ready(self) -> list[bytes | bytearray | memoryview]:
        """Chunks of every response up to the first one that is not ready."""
        ready: list[bytes | bytearray | memoryview] = []
        slots = self._slots
        while slots:
            chunks = slots[0].chunks
            if chunks is None:
                break
            slots.popleft()
            ready.extend(chunks)
        return ready
