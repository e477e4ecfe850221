"""What a mirror tells of records that its source deleted before they were copied, beside what
happened.

In: a topic of a world with two sites. Out: sentences. Never: the mirror's word for what is lost:
the target's own log says where it went on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

from broker.replica.mirrored import PartitionMirror
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.copy.plan.resume import ResumePoint

MOST_RECORDS = 5
"""Of a batch of the topic."""
_OFFSETS = re.compile(r"offsets (\d+)\.\.(\d+) were deleted")


class LostRange(NamedTuple):
    """Offsets [begin, end) of one partition."""

    partition: int
    begin: int
    end: int


class ToldLosses:
    """Invariant: `passed` are the ranges that the log of a leader at the target has left out, `told`
    what the mirror has called lost, both of one topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.passed: list[LostRange] = []
        self.told: list[LostRange] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Looks on while both do what they do."""
        follow, on_hole = PartitionMirror.follow_source_start, PartitionCopy.on_hole

        def follows(mirror: PartitionMirror, offset: int, now_ms: int) -> None:
            log, partition = mirror._partition.log, mirror._partition
            before = log.end_offset
            follow(mirror, offset, now_ms)
            if partition.topic == self._topic and 0 < before < log.end_offset:
                self.passed.append(LostRange(partition.index, before, log.end_offset))

        def tells(copy: PartitionCopy, point: ResumePoint) -> bool:
            is_news = on_hole(copy, point)
            found = _OFFSETS.search(copy._hole)
            if copy.partition.topic == self._topic and found is not None:
                first, last = map(int, found.groups())
                self.told.append(LostRange(copy.partition.partition, first, last + 1))
            return is_news

        with ExitStack() as patches:
            patches.enter_context(patch.object(PartitionMirror, "follow_source_start", follows))
            patches.enter_context(patch.object(PartitionCopy, "on_hole", tells))
            yield

    def differences(self) -> list[str]:
        """Each range that was left out was told as it was. A batch comes whole: what is told may
        end within the first one that is there."""
        return [
            f"{self._topic}-{one.partition} goes on at {one.end} behind {one.begin}, and what is "
            f"told is {sorted(set(self.told))}"
            for one in sorted(set(self.passed))
            if not any(_is_of(told, one) for told in self.told)
        ]


def _is_of(told: LostRange, passed: LostRange) -> bool:
    same_begin = (told.partition, told.begin) == (passed.partition, passed.begin)
    return same_begin and passed.end <= told.end < passed.end + MOST_RECORDS
