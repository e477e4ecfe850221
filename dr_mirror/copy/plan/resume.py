"""Where copying a partition goes on, by what both sides hold. Pure.

In: the offsets of both sides, their batches at the target's end. Out: a position, or a named state.
Never: a state of the mirror's own; what the target holds is the position.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.protocol.wire import Buffer
from bus.records.batch import RecordsError
from dr_mirror.copy.plan.batches import first_batch, is_same_batch
from dr_mirror.topics.states import MirrorState


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """What the source holds: [log_start, high_watermark)."""

    log_start: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class TargetOffsets:
    """What the target holds: [log_start, log_end), readable below its high watermark."""

    log_start: int
    log_end: int
    high_watermark: int

    @property
    def is_empty(self) -> bool:
        """Whether it holds no record."""
        return self.log_start >= self.log_end


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """`position`: the next offset to fetch. `missing`: records of a hole, never to come.
    `compare_at`: the offset whose batches must be equal first; -1: nothing to compare."""

    state: MirrorState
    position: int = -1
    missing: int = 0
    compare_at: int = -1
    detail: str = ""


def resume_point(
    source: SourceOffsets, target: TargetOffsets, *, is_compacted: bool
) -> ResumePoint:
    """Where to go on.

    A batch of a compacted source may have been rewritten since it was copied, so its last batches
    are not compared.
    """
    end = target.log_end
    if end > source.high_watermark:
        return ResumePoint(
            MirrorState.SOURCE_TRUNCATED,
            detail=f"the source ends at {source.high_watermark}, the target at {end}",
        )
    if source.log_start > end:
        if target.is_empty and end == 0:  # a partition starts at the source's log start
            return ResumePoint(MirrorState.COPYING, source.log_start)
        missing = source.log_start - end
        return ResumePoint(
            MirrorState.HOLE, source.log_start, missing,
            detail=f"offsets {end}..{source.log_start - 1} were deleted at the source",
        )  # fmt: skip
    comparable = not is_compacted and not target.is_empty and end - 1 >= source.log_start
    return ResumePoint(MirrorState.COPYING, end, compare_at=end - 1 if comparable else -1)


def difference_at(offset: int, source: Buffer, target: Buffer) -> str:
    """Why the batches that hold `offset` are not one batch; empty: they are."""
    try:
        if is_same_batch(source, target):
            return ""
        base = int.from_bytes(first_batch(target)[:8], "big")
        return f"the batch from offset {base} differs"
    except RecordsError as error:
        return f"the batch at offset {offset} cannot be compared: {error}"
