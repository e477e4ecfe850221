"""What an application is to a driver: a name, topics, and what it does with a batch.

In/out: a Protocol only. Never: Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Application(Protocol):
    """One streaming query. Everything it keeps between batches it can rebuild at a start."""

    name: str
    topics: tuple[str, ...]
    trigger_ms: int

    def transform(self, messages: DataFrame) -> DataFrame:
        """The columns it wants."""

    def on_batch(self, table: pa.Table) -> None:
        """Do everything with one batch and store its positions last, or in the same transaction."""
