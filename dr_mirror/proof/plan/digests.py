"""Digests of what both sides hold, per block of offsets, for the comparison. Pure.

In: batches with their offsets. Out: digests per block, and what differs of them.
Never: a verdict on offsets that only one side still holds; different retention is no difference.

The blocks and their digests are those of `bus.records.block_digest`, which the target's brokers
answer MirrorDigest with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bus.protocol.wire import Buffer
from bus.records.batch import iter_batches
from bus.records.block_digest import BlockDigest, BlockDigests


@dataclass(frozen=True, slots=True)
class BatchDigest:
    """One batch: [base_offset, end_offset), the SHA-256 of its bytes."""

    base_offset: int
    end_offset: int
    size_bytes: int
    digest: bytes


    @classmethod
    def of(cls, block: BlockDigest) -> BatchDigest:
        """A block one offset wide holds one batch."""
        return cls(block.first_offset, block.end_offset, block.size_bytes, block.digest)


@dataclass(frozen=True, slots=True)
class BatchDifference:
    """Offsets [first_offset, end_offset) of batches that follow upon each other and differ
    alike."""

    first_offset: int
    end_offset: int
    detail: str


class BlockDigester:
    """Digests of a partition read from its beginning on, block by block."""

    def __init__(self, block_offsets: int) -> None:
        self._digests = BlockDigests(block_offsets)

    def add(self, records: Buffer, position: int, end: int) -> int:
        """Add the whole batches that begin in [position, end); the next position. Raises
        RecordsError."""
        view = memoryview(records)
        for at, header in iter_batches(view):
            if header.base_offset < position:
                if header.end_offset > position:
                    position = header.end_offset  # begins before what is compared: left out
                continue
            if header.base_offset >= end:
                return end
            self._digests.add(header, view[at : at + header.size_bytes])
            position = header.end_offset
        return position

    def finish(self) -> list[BlockDigest]:
        """All blocks, the last one included."""
        self._digests.close()
        return self._digests.blocks


def differing_blocks(
    source: Sequence[BlockDigest], target: Sequence[BlockDigest], block_offsets: int
) -> list[int]:
    """The numbers of all blocks that are not the same on both sides, ascending."""
    ours, theirs = _by_number(target, block_offsets), _by_number(source, block_offsets)
    return sorted(
        number for number in ours.keys() | theirs.keys() if ours.get(number) != theirs.get(number)
    )


def differing_batches(
    source: Sequence[BatchDigest], target: Sequence[BatchDigest]
) -> list[BatchDifference]:
    """All batches that one side lacks or has otherwise, ascending; both cover the same range."""
    theirs = {one.base_offset: one for one in source}
    ours = {one.base_offset: one for one in target}
    found: list[BatchDifference] = []
    for offset in sorted(theirs.keys() | ours.keys()):
        one, other = theirs.get(offset), ours.get(offset)
        if one == other:
            continue
        detail = "the batch differs"
        if one is None or other is None:
            detail = f"only the {'target' if one is None else 'source'} has this batch"
        end = max(each.end_offset for each in (one, other) if each is not None)
        if found and found[-1].end_offset >= offset and found[-1].detail == detail:
            found[-1] = BatchDifference(found[-1].first_offset, end, detail)
        else:
            found.append(BatchDifference(offset, end, detail))
    return found


def recorded_range(
    recorded: Sequence[BlockDigest], first: int, end: int, block_offsets: int
) -> tuple[list[BlockDigest], int]:
    """What records say of [first, stop) without a break, and `stop`, which is `first` where they
    say nothing. `recorded` are whole blocks that begin in [first, end), ascending."""
    taken: list[BlockDigest] = []
    stop = first
    for one in recorded:
        number = one.first_offset // block_offsets
        follows = one.first_offset == taken[-1].end_offset if taken else False
        if not follows and number * block_offsets != stop:
            break
        if (number + 1) * block_offsets > end:
            break
        taken.append(one)
        stop = (number + 1) * block_offsets
    return taken, stop


def _by_number(
    blocks: Sequence[BlockDigest], block_offsets: int
) -> dict[int, list[BlockDigest]]:
    """A block larger than an answer came in pieces."""
    found: dict[int, list[BlockDigest]] = {}
    for one in blocks:
        found.setdefault(one.first_offset // block_offsets, []).append(one)
    return found
