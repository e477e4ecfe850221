"""Sends responses in the order of their requests, in whichever order they become ready.

In: a slot per request, set at once or later. Out: the chunks that may be sent now, and how many
bytes are held. Never: sockets. Pure; a property test sets slots in every order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from broker.network.limits import MAX_IN_FLIGHT

Chunks = Sequence["bytes | bytearray | memoryview"]


class ResponseSlot:
    """The position of one response in its connection's sequence."""

    __slots__ = ("_pipeline", "chunks", "size_bytes")

    def __init__(self, pipeline: ResponsePipeline) -> None:
        self._pipeline = pipeline
        self.chunks: Chunks | None = None
        self.size_bytes = 0

    def set(self, chunks: Chunks) -> None:
        """Set the whole frame; an empty sequence means that no response is sent (acks=0)."""
        pipeline = self._pipeline
        if self.chunks is None and not pipeline.is_closed:
            self.chunks = chunks
            self.size_bytes = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
            pipeline.held_bytes += self.size_bytes
            pipeline.on_ready()


class ResponsePipeline:
    """One connection's outgoing responses.

    Invariant: slots leave from the head only, and only when set; `held_bytes` is the sum of all set
    slots, also those after one that is not.
    """

    __slots__ = ("_pausing_slot", "held_bytes", "is_closed", "on_ready", "slots")

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self.on_ready = on_ready
        self.held_bytes = 0
        self.is_closed = False
        self.slots: deque[ResponseSlot] = deque()
        self._pausing_slot: ResponseSlot | None = None

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def is_full(self) -> bool:
        """Whether no further request is accepted: there are too many, or the newest one pauses."""
        return len(self.slots) >= MAX_IN_FLIGHT or self._pausing_slot is not None

    def open(self) -> ResponseSlot:
        """A slot after all others."""
        slot = ResponseSlot(self)
        self.slots.append(slot)
        return slot

    def pause(self) -> None:
        """Accept no further request until the response to the newest one has left."""
        if self.slots:
            self._pausing_slot = self.slots[-1]

    def pop_ready(self) -> list[bytes | bytearray | memoryview]:
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
            if slot is self._pausing_slot:
                self._pausing_slot = None
            ready.extend(chunks)
        return ready

    def close(self) -> None:
        """Drop all responses, those that become ready later too. The connection is let go of, which
        has this pipeline itself: a cycle of the two would be left to the garbage collector, whose
        pauses all connections share."""
        self.is_closed = True
        self.held_bytes = 0
        self.slots.clear()
        self.on_ready = _nobody_waits


def _nobody_waits() -> None:
    """The connection is closed."""
