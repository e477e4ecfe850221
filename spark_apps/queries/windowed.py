"""An application that judges cells of the past two hours, read from their topic.

In: cumulative cells of one topic. Out: incidents, acknowledged before the positions are committed.
Never: a record, a store, a judgement before the window is whole again (`rebuilding.py`), a clock in
a judgement: minutes are judged as far as ingest has published them, however late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

import msgspec

from bus.client.model import TopicAndPartition
from bus.domain.times import MINUTE_MS, minute_of
from bus.runtime.wall_clock import now_ms
from monitor.models.cell_window import Cell, CellWindow
from monitor.models.hysteresis import Hysteresis
from monitor.models.published_minutes import PublishedMinutes
from spark_apps.batches.message import OffsetRanges, StreamMessage, decoded, ends_of, messages_of
from spark_apps.queries.context import Context
from spark_apps.source.kafka_source import select_columns
from spark_apps.source.rebuilding import Rebuilding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class JudgedWindow(Generic[Cell]):
    """The cells, what of them can be judged, and what the driver before has judged. Pure."""

    cells: CellWindow[Cell]
    settled: PublishedMinutes = field(default_factory=PublishedMinutes)
    before: PublishedMinutes = field(default_factory=PublishedMinutes)

    def add(self, cells: Iterable[Cell], published_at_ms: int, *, was_done: bool) -> None:
        """Cells of one message. `was_done`: the driver before had judged what they complete."""
        for cell in cells:
            self.cells.add((cell,))
            self.settled.add(cell.minute_ms, published_at_ms)
            if was_done:
                self.before.add(cell.minute_ms, published_at_ms)

    def begin_ms(self, rule: Hysteresis) -> int:
        """The first minute to judge after a start: so many before the first that nobody judged as
        one series of bad or good ones is long. Judging them again opens and closes nothing that is
        not known by its id. 0, where nobody has judged any: with what there is."""
        return max(0, self.before.until_ms() - max(rule.open_slots, rule.close_slots) * MINUTE_MS)

    def drop_judged(self, until_ms: int) -> None:
        """Minutes are judged once; a city's cells of two hours are half a gigabyte."""
        self.cells.drop_before(minute_of(until_ms))

    def trim(self) -> None:
        """Drop what is no longer judged."""
        self.cells.trim(self.settled.newest_ms)


class WindowedApplication(ABC, Generic[Cell]):
    """Keeps the cells of minutes that are not judged yet. At a start it reads those of two hours
    again; what it commits tells the next driver up to where the minutes were judged."""

    name: str
    topics: tuple[str, ...]
    headers: bool = False

    def __init__(
        self, context: Context, decoder: msgspec.json.Decoder[Cell], window: CellWindow[Cell],
        rule: Hysteresis,
    ) -> None:  # fmt: skip
        self._context = context
        self._decoder = decoder
        self._window = JudgedWindow(window)
        self._rule = rule
        self._begun = False
        self._rebuilding = Rebuilding(context.group_positions(self.name, self.topics))

    @abstractmethod
    def judge_from(self, minute_ms: int) -> None:
        """Judgement begins with this minute."""

    @abstractmethod
    def judge(self, cells: CellWindow[Cell], until_ms: int) -> None:
        """Publish the incidents of the minutes up to there (exclusive) that were not judged."""

    def positions(self) -> dict[TopicAndPartition, int]:
        """As far back as the window reaches."""
        span_ms = self._window.cells.keep_minutes * MINUTE_MS
        return self._rebuilding.starting_positions(now_ms() - span_ms)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return select_columns(messages, headers=False)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Meters are few: they are read in this process."""
        self.on_batch(messages_of(frame.toArrow()), offsets)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Incidents first: a repeated one is recognised by its id, a missing one would be lost."""
        for message in messages:
            cells = decoded((message.value,), self._decoder)  # others are not ours
            done = self._rebuilding.was_done(message)
            self._window.add(cells, message.timestamp_ms, was_done=done)
        self._window.trim()
        if self._rebuilding.is_over(ends_of(offsets)):
            if not self._begun:
                self._begun = True
                self.judge_from(self._window.begin_ms(self._rule))
            until_ms = self._window.settled.until_ms()
            self.judge(self._window.cells, until_ms)
            self._window.drop_judged(until_ms)
        self._rebuilding.commit(ends_of(offsets))
