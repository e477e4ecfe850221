"""The next step that makes a future log equal to the log it will replace. Pure.

In: offsets and epochs of both logs. Out: a `Step`. Never: a change; a byte copied.

A future log follows the current one of the same broker as a follower follows its leader, by epochs
(KIP-101): it may have missed a truncation, after which the current log continued differently.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from broker.log.epochs import UNDEFINED_OFFSET
from broker.log.log import Log
from broker.replica.fetch.offset_reset import truncation_offset


class StepKind(Enum):
    """TRUNCATE: drop everything from the offset on. RESTART: drop everything, begin at the offset.
    COPY: from the offset on. REPLACE: both are the same."""

    TRUNCATE = "truncate"
    RESTART = "restart"
    COPY = "copy"
    REPLACE = "replace"


class Step(NamedTuple):
    """What to do, and where."""

    kind: StepKind
    offset: int


def next_step(current: Log, future: Log) -> Step:
    """The next step; after finitely many, if the current log does not change, it is REPLACE."""
    end = future.end_offset
    common = _common_end(current, future)
    if common < end:
        return Step(StepKind.TRUNCATE, common)
    if current.log_start_offset > end:
        return Step(StepKind.RESTART, current.log_start_offset)
    return Step(StepKind.COPY if end < current.end_offset else StepKind.REPLACE, end)


def _common_end(current: Log, future: Log) -> int:
    """The end of what can be equal in both logs, as far as epochs tell."""
    end = min(future.end_offset, current.end_offset)
    epoch = future.latest_epoch
    if epoch < 0:
        return end
    found = current.end_offset_for_epoch(epoch)
    if found.end_offset == UNDEFINED_OFFSET:  # the current log has nothing of that epoch any more
        return min(end, future.leader_epochs.entries[-1][1])
    if found.epoch < epoch or found.end_offset < end:
        return truncation_offset(future, found.epoch, min(found.end_offset, end))
    return end
