"""What an application is to a driver, and several of them on one query.

Each application processes what lies on its topics beyond its position. A micro-batch costs more
than the hundred records in it, so applications that read the same topics share one; each keeps its
own positions and may also run alone.

The work of the records is done in the driver's process (`on_batch`) or in Spark's executors
(`on_frame`); `[streams] work_in` says which (ADR 0023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bus.client.model import TopicAndPartition
from spark_apps.batches.message import OffsetRanges, StreamMessage, ends_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Application(Protocol):
    """Everything it keeps between batches it can rebuild at a start."""

    name: str
    topics: tuple[str, ...]
    headers: bool  # whether `transform` keeps the headers
    trigger_ms: int

    def positions(self) -> dict[TopicAndPartition, int]:
        """Where it stands (exclusive ends); a partition it has not read is left out."""

    def transform(self, messages: DataFrame) -> DataFrame:
        """The columns it wants (`source.select_columns`)."""

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Do everything with one batch; positions last, or in the same transaction."""

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """The same with the records still in Spark: one action, whose tasks do the work."""


@dataclass(slots=True)
class AppCursor:
    """One application and how far it has come. Invariant: no end ever falls."""

    application: Application
    ends: dict[TopicAndPartition, int]

    def process(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Hand over what is new to it."""
        unseen = self._unseen(offsets)
        if not unseen:
            return
        if unseen != offsets:
            messages = [m for m in messages if _is_in(unseen, m)]
        self.application.on_batch(messages, unseen)
        self.ends |= ends_of(unseen)

    def process_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """The same with the records still in Spark."""
        unseen = self._unseen(offsets)
        if not unseen:
            return
        self.application.on_frame(
            frame if unseen == offsets else frame.where(condition_of(unseen)), unseen
        )
        self.ends |= ends_of(unseen)

    def _unseen(self, offsets: OffsetRanges) -> OffsetRanges:
        topics, ends = self.application.topics, self.ends
        return {
            (topic, number): (max(first, ends.get((topic, number), 0)), end)
            for (topic, number), (first, end) in offsets.items()
            if topic in topics and end > ends.get((topic, number), 0)
        }


def open_cursor(application: Application) -> AppCursor:
    """The application where it stands."""
    return AppCursor(application, application.positions())


def condition_of(offsets: OffsetRanges) -> str:
    """The SQL condition for records within ranges."""
    return " OR ".join(
        f"(topic = '{topic}' AND partition = {number} AND offset >= {first} AND offset < {end})"
        for (topic, number), (first, end) in sorted(offsets.items())
    )


def _is_in(offsets: OffsetRanges, message: StreamMessage) -> bool:
    first, end = offsets.get((message.topic, message.partition), (0, 0))
    return first <= message.offset < end


class SharedQuery:
    """One streaming query: its members in the order in which they are served."""

    def __init__(self, cursors: Sequence[AppCursor]) -> None:
        self.cursors = cursors
        applications = [member.application for member in cursors]
        self.name = "+".join(application.name for application in applications)
        self.topics = tuple(sorted({topic for a in applications for topic in a.topics}))
        self.readers = {application.name: application.topics for application in applications}
        self.trigger_ms = min(application.trigger_ms for application in applications)
        self.transform = max(applications, key=lambda a: a.headers).transform

    def reopen(self) -> SharedQuery:
        """The same applications where they stand now, by their own positions."""
        return SharedQuery([open_cursor(member.application) for member in self.cursors])

    def starting_positions(
        self, partitions: Sequence[TopicAndPartition]
    ) -> dict[TopicAndPartition, int]:
        """Where the member furthest behind stands; left out where one has not read at all."""
        found = {}
        for partition in partitions:
            ends = [m.ends.get(partition) for m in self.cursors if _reads(m, partition)]
            known = [end for end in ends if end is not None]
            if known and len(known) == len(ends):
                found[partition] = min(known)
        return found

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Serve every member."""
        for member in self.cursors:
            member.process(messages, offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Serve every member, each with a plan of its own."""
        for member in self.cursors:
            member.process_frame(frame, offsets)


def _reads(member: AppCursor, partition: TopicAndPartition) -> bool:
    return partition[0] in member.application.topics
