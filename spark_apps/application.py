"""What an application is to a driver, and several of them on one query.

Each application processes what lies on its topics beyond its position. A micro-batch costs more
than the hundred records in it, so applications that read the same topics share one; each keeps its
own positions in the store and may also run alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bus.client.model import TopicAndPartition
from spark_apps.message import OffsetRanges, StreamMessage, offset_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Application(Protocol):
    """Everything it keeps between batches it can rebuild at a start."""

    name: str
    topics: tuple[str, ...]
    headers: bool  # whether `transform` keeps the headers
    trigger_ms: int

    def transform(self, messages: DataFrame) -> DataFrame:
        """The columns it wants (`source.select_columns`)."""

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Do everything with one batch; positions last, or in the same transaction."""


@dataclass(slots=True)
class AppCursor:
    """One application and how far it has come. Invariant: no end ever falls."""

    application: Application
    ends: dict[TopicAndPartition, int]

    def process(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Hand over what is new to it."""
        unseen = self._unseen(messages, offsets)
        if not unseen:
            return
        ranges = offsets if unseen is messages else offset_ranges(unseen)
        self.application.on_batch(unseen, ranges)
        self.ends |= {partition: end for partition, (_, end) in ranges.items()}

    def _unseen(
        self, messages: Sequence[StreamMessage], offsets: OffsetRanges
    ) -> Sequence[StreamMessage]:
        topics, ends = self.application.topics, self.ends
        if all(
            t in topics and first >= ends.get((t, n), 0) for (t, n), (first, _) in offsets.items()
        ):
            return messages  # the common case: nothing to leave out
        return [m for m in messages if m[0] in topics and m[2] >= ends.get((m[0], m[1]), 0)]


class SharedQuery:
    """One streaming query: its members in the order in which they are served."""

    def __init__(self, cursors: Sequence[AppCursor]) -> None:
        self._cursors = cursors
        applications = [member.application for member in cursors]
        self.name = "+".join(application.name for application in applications)
        self.topics = tuple(sorted({topic for a in applications for topic in a.topics}))
        self.trigger_ms = min(application.trigger_ms for application in applications)
        self.transform = max(applications, key=lambda a: a.headers).transform

    def starting_positions(
        self, partitions: Sequence[TopicAndPartition]
    ) -> dict[TopicAndPartition, int]:
        """Where the member furthest behind stands; left out where one has not read at all."""
        found = {}
        for partition in partitions:
            ends = [m.ends.get(partition) for m in self._cursors if _reads(m, partition)]
            known = [end for end in ends if end is not None]
            if known and len(known) == len(ends):
                found[partition] = min(known)
        return found

    def on_batch(self, messages: Sequence[StreamMessage]) -> None:
        """Serve every member."""
        offsets = offset_ranges(messages)
        for member in self._cursors:
            member.process(messages, offsets)


def _reads(member: AppCursor, partition: TopicAndPartition) -> bool:
    return partition[0] in member.application.topics
