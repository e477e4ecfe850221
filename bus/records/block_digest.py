"""Digests of batches, by blocks of offsets, that are equal at two sites. Pure.

In: whole batches in the order of offsets. Out: per block its bounds, its counts and a SHA-256 over
its batches with partition leader epochs as 0, which is all in which the same batch may differ at
two sites. Never: an I/O, a look at the records.

Block k is the offsets [k × `block_offsets`, (k+1) × `block_offsets`); a batch belongs to the
block of its base offset, so blocks agree although retention, segments and replicas do not.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from bus.records.batch import EPOCH_AT, EPOCH_END, BatchHeader

_NO_EPOCH = bytes(EPOCH_END - EPOCH_AT)


class BlockDigest(NamedTuple):
    """The batches that begin in one block: [first_offset, end_offset) from the first batch's base
    offset to the end of the last."""

    first_offset: int
    end_offset: int
    batches: int
    records: int
    size_bytes: int
    digest: bytes


class BlockDigests:
    """Invariant: ``blocks`` are whole; the block under construction joins them by ``close``."""

    def __init__(self, block_offsets: int) -> None:
        self.blocks: list[BlockDigest] = []
        self._block_offsets = block_offsets
        self._number = -1
        self._open: BlockDigest | None = None
        self._hash: Any = None

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """The next batch of the partition."""
        number = header.base_offset // self._block_offsets
        if number != self._number:
            self.close()
            self._number, self._hash = number, sha256()
        update_digest(self._hash, batch)
        held = self._open or BlockDigest(header.base_offset, 0, 0, 0, 0, b"")
        self._open = BlockDigest(
            held.first_offset, header.end_offset, held.batches + 1,
            held.records + header.records_count, held.size_bytes + len(batch), b"",
        )  # fmt: skip

    def close(self) -> None:
        """No further batch belongs to the open block, or none is read."""
        if self._open is not None:
            self.blocks.append(self._open._replace(digest=self._hash.digest()))
            self._number, self._open = -1, None


def update_digest(digest: Any, batch: memoryview) -> None:
    """Add one batch to a hash, its partition leader epoch as 0."""
    digest.update(batch[:EPOCH_AT])
    digest.update(_NO_EPOCH)
    digest.update(batch[EPOCH_END:])
