"""What a future log needs next to become the same as the log it is to replace (pure).

In: both logs, of which only offsets and epochs are looked at. Out: a `Step`. Never: a change; a
byte copied.

A future log follows the current one of the same broker as a follower follows its leader, by epochs
(KIP-101): it may have slept through a truncation, after which the current log went on otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from broker.log.epochs import UNDEFINED_OFFSET
from broker.log.log import Log
from broker.replica.truncation import cut_at


class StepKind(Enum):
    """CUT: drop everything from the offset on. ANEW: drop everything, begin at the offset. COPY:
    from the offset on. REPLACE: both are the same."""

    CUT = "cut"
    ANEW = "anew"
    COPY = "copy"
    REPLACE = "replace"


class Step(NamedTuple):
    """What to do, and where."""

    kind: StepKind
    offset: int


def next_step(current: Log, future: Log) -> Step:
    """The next thing to do; after finitely many, if the current log rests, it is REPLACE."""
    end = future.end_offset
    common = _common_end(current, future)
    if common < end:
        return Step(StepKind.CUT, common)
    if current.log_start_offset > end:
        return Step(StepKind.ANEW, current.log_start_offset)
    return Step(StepKind.COPY if end < current.end_offset else StepKind.REPLACE, end)


def _common_end(current: Log, future: Log) -> int:
    """Up to where the future log can be the same as the current one, as far as epochs say it."""
    end = min(future.end_offset, current.end_offset)
    epoch = future.latest_epoch
    if epoch < 0:
        return end
    found = current.end_offset_for_epoch(epoch)
    if found.end_offset == UNDEFINED_OFFSET:  # the current log has nothing of that epoch any more
        return min(end, future.leader_epochs.entries[-1][1])
    if found.epoch < epoch or found.end_offset < end:
        return cut_at(future, found.epoch, min(found.end_offset, end))
    return end
