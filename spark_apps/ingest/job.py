"""Ingest: data topics and quarantine → store, positions in the same transaction (I-4).

In: batches of messages. Out: rows, rejections, counts; the touched latency cells on
`meter.latency`.
Never: a position stored without its rows. Alone: `spark_apps/driver.py --application ingest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bus.contracts.topics import DATA_TOPICS, METER_LATENCY, QUARANTINE_RECORDS
from ingest.normalise import clock_limits
from spark_apps.context import Context
from spark_apps.ingest.state import store_batch
from spark_apps.ingest.transform import transform
from spark_apps.message import Covered, Message
from spark_apps.positions import positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Ingest:
    """Keeps nothing between batches."""

    name: str = "ingest"
    topics: tuple[str, ...] = (*DATA_TOPICS, QUARANTINE_RECORDS)
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return transform(messages)

    def on_batch(self, messages: Sequence[Message], offsets: Covered) -> None:
        """One transaction of the store, then the meters (cumulative: a lost one heals by the
        next).
        """
        context = self._context
        site = context.settings.site
        register, clock = context.register.current(), clock_limits(site)
        batch = store_batch(messages, register, site.zone, clock)
        applied = context.store.apply(batch, positions(self.name, context.cluster, offsets))
        for cell in applied.latency:
            context.events.send(METER_LATENCY, f"{cell.kind}:{cell.minute_ms}", cell)
