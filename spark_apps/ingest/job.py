"""Ingest: data topics and quarantine → store, positions in the same transaction (I-4).

In: batches of messages. Out: rows, rejections, counts; the touched latency cells on
`meter.latency`.
Never: a position stored without its rows. Alone: `spark-submit … spark_apps/ingest/job.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bus.contracts.topics import DATA_TOPICS, METER_LATENCY, QUARANTINE_RECORDS
from spark_apps.context import Context
from spark_apps.ingest.state import Arrived, store_batch
from spark_apps.ingest.transform import transform
from spark_apps.positions import covered, positions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Ingest:
    """Keeps nothing between batches."""

    name: str = "ingest"
    topics: tuple[str, ...] = (*DATA_TOPICS, QUARANTINE_RECORDS)

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms

    def transform(self, messages: DataFrame) -> DataFrame:
        """The columns of `Arrived`."""
        return transform(messages)

    def on_batch(self, table: pa.Table) -> None:
        """One transaction of the store, then the meters (cumulative: a lost one heals by the
        next).
        """
        context = self._context
        columns = [column.to_pylist() for column in table.columns]
        messages = map(Arrived._make, zip(*columns, strict=True))
        batch = store_batch(messages, context.register.current(), context.settings.site.zone)
        offsets_read = covered(columns[0], columns[1], columns[2])
        applied = context.store.apply(batch, positions(self.name, context.cluster, offsets_read))
        for cell in applied.latency:
            context.events.send(METER_LATENCY, f"{cell.kind}:{cell.minute_ms}", cell)
        context.events.poll()


if __name__ == "__main__":
    from spark_apps.driver import main

    sys.exit(main(applications=(Ingest.name,)))
