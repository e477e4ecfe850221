"""The source's side of a comparison: the source itself, or what is recorded of its blocks.

In: a live side, the reconciliation records. Out: digests. Core: `recorded_range`. Never: a record
in place of a source that answers and costs nothing on the link.

The records stand in twice: for a source whose every byte would come over the link again each
minute, and for one that does not answer. So what the second site holds is checked against what the
first one had, after that one is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.records.block_digest import BlockDigest
from dr_mirror.proof.plan.digests import recorded_range
from dr_mirror.proof.plan.partition_proof import BLOCK_OFFSETS
from dr_mirror.proof.replica_endpoints import (
    EndpointError,
    EndpointMoved,
    EndpointSilent,
    HeldRange,
    ReadBlocks,
    ReplicaEndpoint,
)

Recorded = Callable[[int, int], Awaitable[list[BlockDigest]]]
"""The records of blocks that begin in [first, end); empty where they cannot be read."""


class RecordedSource:
    """`live` None: the source is known not to answer just now. `on_silent` is told when it does
    not."""

    def __init__(
        self, live: ReplicaEndpoint | None, recorded: Recorded, *, prefer_recorded: bool,
        why_silent: str, on_silent: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._live = live
        self._recorded = recorded
        self._prefer_recorded = prefer_recorded
        self._why_silent = why_silent
        self._on_silent = on_silent

    async def held(self) -> HeldRange:
        """What the source shows. Raises EndpointError."""
        if self._live is None:
            raise EndpointError(self._why_silent)
        return await self._live.held()

    async def read(self, first: int, end: int, block_offsets: int) -> ReadBlocks:
        """Of the source, else of its records. Raises EndpointError where neither has it."""
        if self._live is None or self._prefer_recorded:
            found = await self._from_records(first, end, block_offsets)
            if found is not None:
                return found
        if self._live is None:
            raise EndpointError(self._why_silent)
        try:
            return await self._live.read(first, end, block_offsets)
        except EndpointMoved:
            raise
        except EndpointError as error:
            self._live, self._why_silent = None, str(error)
            if isinstance(error, EndpointSilent):
                self._on_silent(self._why_silent)
            found = await self._from_records(first, end, block_offsets)
            if found is None:
                raise
            return found

    async def _from_records(self, first: int, end: int, block_offsets: int) -> ReadBlocks | None:
        """Whole blocks only, from `first` on as far as the records go without a break."""
        if block_offsets != BLOCK_OFFSETS:
            return None
        blocks, stop = recorded_range(await self._recorded(first, end), first, end, block_offsets)
        return ReadBlocks(blocks, stop) if stop > first else None
