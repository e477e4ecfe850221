"""An application that judges cells of the past two hours, read from their topic.

In: cumulative cells of one topic. Out: incidents, acknowledged before the positions are committed.
Never: a record, a store, a judgement before the window is whole again (`rebuilding.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic

import msgspec

from bus.client.model import TopicAndPartition
from bus.domain.times import MINUTE_MS
from bus.wall_clock import now_ms
from monitor.models.cell_window import Cell, CellWindow
from spark_apps.context import Context
from spark_apps.message import OffsetRanges, StreamMessage, decoded, ends_of, messages_of
from spark_apps.rebuilding import Rebuilding
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JUDGED_MINUTES = 10  # older minutes were judged, or no driver ran


class WindowedApplication(ABC, Generic[Cell]):
    """Keeps the cells, which it reads again at every start; where it stands is committed for those
    who watch the lag."""

    name: str
    topics: tuple[str, ...]
    headers: bool = False

    def __init__(
        self, context: Context, decoder: msgspec.json.Decoder[Cell], window: CellWindow[Cell]
    ) -> None:
        self._context = context
        self._decoder = decoder
        self._window = window
        self._rebuilding = Rebuilding(context.group_positions(self.name, self.topics))

    @abstractmethod
    def judge(self) -> None:
        """Publish the incidents of the minutes that have settled since the last call."""

    def positions(self) -> dict[TopicAndPartition, int]:
        """As far back as the window reaches."""
        return self._rebuilding.starting_positions(now_ms() - self._window.keep_minutes * MINUTE_MS)

    def transform(self, messages: DataFrame) -> DataFrame:
        """Position, time and value."""
        return select_columns(messages, headers=False)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Meters are few: they are read in this process."""
        self.on_batch(messages_of(frame.toArrow()), offsets)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Incidents first: a repeated one is recognised by its id, a missing one would be lost."""
        self._window.add(self.cells_of(message.value for message in messages))
        self._window.trim()
        if self._rebuilding.is_over(ends_of(offsets)):
            self.judge()
        self._rebuilding.commit(ends_of(offsets))

    def cells_of(self, values: Iterable[bytes | None]) -> list[Cell]:
        """The cells of readable messages; others are not ours."""
        return list(decoded(values, self._decoder))
