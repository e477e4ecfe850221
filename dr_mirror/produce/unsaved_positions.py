"""Source positions that an ordinary target without transactions has reached and does not say yet.

In: positions of records that were taken. Out: writes, one at a time, that hold up no record while
few bytes wait. Never: more than `most_bytes` unsaved when `save_when_due` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from bus.client.model import TopicPartition
from bus.runtime.tasks import spawn
from dr_mirror.produce.plan.append_batches import AppendBatches
from dr_mirror.produce.plan.positions import SourcePosition
from dr_mirror.produce.plan.produce_errors import produce_state
from dr_mirror.produce.transaction_manager import TransactionFailed

EVERY_S = 0.1
"""What was sent since the last write comes twice after a kill."""

Positions = Mapping[TopicPartition, SourcePosition]
Write = Callable[[Positions], Coroutine[Any, Any, AppendBatches]]


class UnsavedPositions:
    """Invariant: `_reached` has all that no finished write has said; `_writing` is the one write
    under way, of `_written`."""

    def __init__(self, monotonic: Callable[[], float], most_bytes: int, write: Write) -> None:
        """`write` does not raise; what it returns says what became of it."""
        self._monotonic = monotonic
        self._most_bytes = most_bytes
        self._write = write
        self._reached: dict[TopicPartition, SourcePosition] = {}
        self._bytes = 0
        self._written: Positions = {}
        self._writing_bytes = 0
        self._writing: asyncio.Task[AppendBatches] | None = None
        self._began_s = monotonic()

    def __bool__(self) -> bool:
        return bool(self._reached)

    def of(self, partition: TopicPartition) -> SourcePosition | None:
        """None: the target says it."""
        return self._reached.get(partition)

    def reach(self, partition: TopicPartition, position: SourcePosition, size: int) -> None:
        """The target has `size` bytes more of a partition."""
        self._reached[partition] = position
        self._bytes += size

    async def save_when_due(self) -> None:
        """Begin a write where it is time, and wait for it where too much is unsaved. Raises
        TransactionFailed, also for a write that was begun before."""
        if self._writing is not None and self._writing.done():
            await self._finish()
        if self._bytes >= self._most_bytes:
            await self.save({})
        elif self._writing is None and self._reached and self._is_time:
            self._begin(dict(self._reached))

    async def save(self, claimed: Positions) -> None:
        """Write all, and these, which replace what was reached. Raises TransactionFailed."""
        await self._finish()
        self._begin({**self._reached, **claimed})
        await self._finish()
        for partition in claimed:
            self._reached.pop(partition, None)

    async def settle(self) -> None:
        """Return once no write is under way: an old one must not follow newer ones."""
        if self._writing is not None:
            await self._writing
            self._writing = None

    def close(self) -> None:
        """Give up what is under way."""
        if self._writing is not None:
            self._writing.cancel()

    @property
    def _is_time(self) -> bool:
        return self._monotonic() - self._began_s >= EVERY_S

    def _begin(self, positions: Positions) -> None:
        self._written, self._writing_bytes = positions, self._bytes
        self._began_s = self._monotonic()
        self._writing = spawn(self._write(positions), name="positions at the target")

    async def _finish(self) -> None:
        if self._writing is None:
            return
        done = await self._writing
        self._writing = None
        check_positions(done)
        self._bytes -= self._writing_bytes
        for partition, position in self._written.items():
            if self._reached.get(partition) == position:
                del self._reached[partition]


def check_positions(written: AppendBatches) -> None:
    """Raises TransactionFailed where the target has not taken them."""
    if written.failure is not None:
        code, detail = written.failure
        raise TransactionFailed(*produce_state(code, f"{written.partition.topic} {detail}".strip()))
