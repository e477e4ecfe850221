"""Whether a batch has been taken in already, told by positions alone. Pure.

In: a batch's positions, how far each partition has been read. Out: yes, no, or `PositionsOverlap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingest.store.port import Position, PositionsOverlap


def was_applied(positions: Sequence[Position], end_offset: Callable[[Position], int]) -> bool:
    """Whether every offset was taken in before; raises `PositionsOverlap` when only some were.

    `end_offset` gives how far a partition has been read, -1 for never.
    """
    ends = [(p, end_offset(p)) for p in positions]
    if ends and all(p.end_offset <= end for p, end in ends):
        return True
    for p, end in ends:
        if p.end_offset < end or -1 < p.start_offset < end:
            raise PositionsOverlap(
                f"{p.application}: {p.topic}-{p.partition} is stored up to {end}, the batch "
                f"covers {p.start_offset if p.start_offset >= 0 else '?'} to {p.end_offset}"
            )
    return False
