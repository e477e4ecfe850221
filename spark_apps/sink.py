"""The sink of a query: hands batches to its applications, one batch ahead.

While the applications work on a batch, Spark fetches the next one, on another core. Spark may note
a batch as done before it is: that note is in a checkpoint that is never used again, and the store's
positions, written with the rows, are what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from spark_apps.message import StreamMessage, messages_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Sink:
    """What `foreachBatch` calls. Invariant: at most one batch is being worked on."""

    def __init__(
        self,
        name: str,
        serve: Callable[[Sequence[StreamMessage]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._serve = serve
        self._failed = failed
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._working: Future[None] | None = None

    def __call__(self, batch: DataFrame, _batch_id: int) -> None:
        """Fetch; hand over when the batch before is done. Raises what that one raised."""
        try:
            table = batch.toArrow()
        except BaseException as error:
            self._failed(error)  # here and not only by Spark, whose message may itself fail
            raise
        self.wait()
        if table.num_rows:
            self._working = self._worker.submit(self._work, table)

    def wait(self) -> None:
        """Until no batch is being worked on. Raises what the last one raised."""
        if self._working is not None:
            self._working.result()

    def close(self) -> None:
        """Let the batch under way end; nothing is taken any more."""
        self._worker.shutdown()

    def _work(self, table: pa.Table) -> None:
        try:
            self._serve(messages_of(table))
        except BaseException as error:
            self._failed(error)
            raise
