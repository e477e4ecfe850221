"""The sinks of a query: they hand its batches to its applications.

`DriverSink` works in the driver's process, one batch ahead: while the applications work on a batch,
Spark fetches the next one, on another core. Spark may note a batch as done before it is: that note
is in a checkpoint that is never used again, and the applications' own positions are what counts.
`ExecutorSink` leaves the records in Spark, whose tasks do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from spark_apps.batches.batch_tasks import tasks_for
from spark_apps.batches.message import OffsetRanges, StreamMessage, messages_of
from spark_apps.batches.slicer import Slicer
from spark_apps.source.lost_records import LostRecords
from spark_apps.source.offset_log import OffsetLog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Failed = Callable[[BaseException], None]


class Sink(Protocol):
    """What `foreachBatch` calls."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process a batch, or take it. Raises what ended the batch, or the one before."""

    def close(self) -> None:
        """Let the batch under way end; nothing is taken any more."""


class DriverSink:
    """Invariant: at most one batch, or slice of one, is being worked on. `confirm` raises where the
    topics of a batch that lacks records are other ones by now."""

    def __init__(
        self,
        name: str,
        offset_log: OffsetLog,
        slicer: Slicer,
        lost: LostRecords,
        confirm: Callable[[OffsetRanges], None],
        serve: Callable[[Sequence[StreamMessage], OffsetRanges], None],
        failed: Failed,
    ) -> None:
        self._offset_log = offset_log
        self._slicer = slicer
        self._lost = lost
        self._confirm = confirm
        self._serve = serve
        self._failed = failed
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._working: Future[None] | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Fetch; hand over when the batch before is done. Raises what that one raised."""
        try:
            for part, offsets in self._slicer.parts(batch, self._offset_log.ranges(batch_id)):
                table = part.toArrow()
                self.wait()
                if self._lost.read(offsets, table.num_rows):
                    self._confirm(offsets)
                self._working = self._worker.submit(self._work, table, offsets)
        except BaseException as error:
            self._failed(error)  # here and not only by Spark, whose message may itself fail
            raise

    def wait(self) -> None:
        """Until no batch is being worked on. Raises what the last one raised."""
        if self._working is not None:
            self._working.result()

    def close(self) -> None:
        """Let the batch under way end; nothing is taken any more."""
        self._worker.shutdown()
        self._slicer.close()

    def _work(self, table: pa.Table, offsets: OffsetRanges) -> None:
        try:
            self._serve(messages_of(table), offsets)
        except BaseException as error:
            self._failed(error)
            raise


class ExecutorSink:
    """A batch is done when this returns. `check`: whether its records are still there; `slots`: how
    many tasks run at once by now."""

    def __init__(
        self,
        offset_log: OffsetLog,
        slicer: Slicer,
        check: Callable[[OffsetRanges], None],
        slots: Callable[[], int],
        serve: Callable[[DataFrame, OffsetRanges], None],
        failed: Failed,
    ) -> None:
        self._offset_log = offset_log
        self._slicer = slicer
        self._check = check
        self._slots = slots
        self._serve = serve
        self._failed = failed

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Plan and run the batch's action. Raises what it raised."""
        try:
            for part, offsets in self._slicer.parts(batch, self._offset_log.ranges(batch_id)):
                self._check(offsets)  # its records are nowhere counted by partition
                self._serve(part.coalesce(tasks_for(offsets, self._slots())), offsets)
        except BaseException as error:
            self._failed(error)
            raise

    def close(self) -> None:
        """Nothing goes on between two calls."""
        self._slicer.close()
