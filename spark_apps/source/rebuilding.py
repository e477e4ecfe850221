"""Where an application begins that keeps a window of the past, and when it has it again.

In: the group whose committed offsets tell how far the driver before had come. Out: offsets some
time back. Never: a judgement while the window is half full: what is missing in it would look lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.model import TopicAndPartition
from spark_apps.batches.message import StreamMessage
from spark_apps.source.group_positions import GroupPositions


class Rebuilding:
    """Over when everything has been read that lay on the topics at the start."""

    def __init__(self, group: GroupPositions) -> None:
        self._group = group
        self._missing: dict[TopicAndPartition, int] = {}
        self._committed: dict[TopicAndPartition, int] = {}

    def starting_positions(self, since_ms: int) -> dict[TopicAndPartition, int]:
        """The offsets at that moment. Reading does not begin at committed ones, and none is
        lowered."""
        self._committed = self._group.read()
        starts, ends = self._group.since(since_ms)
        self._missing = {p: end for p, end in ends.items() if end > starts.get(p, 0)}
        return starts

    def was_done(self, message: StreamMessage) -> bool:
        """Whether the driver before has worked on it."""
        return message.offset < self._committed.get((message.topic, message.partition), 0)

    def is_over(self, ends: Mapping[TopicAndPartition, int]) -> bool:
        """Whether these ends (exclusive) complete what was there at the start."""
        for partition, end in ends.items():
            if end >= self._missing.get(partition, end + 1):
                del self._missing[partition]
        return not self._missing

    def commit(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Work up to these ends is done. Raises `BusError` of a commit before that was given up."""
        self._group.commit_soon(ends)
