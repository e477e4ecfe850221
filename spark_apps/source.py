"""Spark's Kafka source with the options that every application shares.

In: a session, topics, starting offsets. Out: a streaming DataFrame.
Never: a position of its own: those are the store's.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession


def read(
    session: SparkSession,
    *,
    bootstrap_servers: str,
    topics: Iterable[str],
    starting_offsets: str,
    max_offsets: int,
    client_id: str,
) -> DataFrame:
    """Records with headers. What retention cut is reported by the caller, not a failure here."""
    return (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.client.id", client_id)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", starting_offsets)
        .option("maxOffsetsPerTrigger", max_offsets)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
