"""Spark's Kafka source with the options that every application shares. It begins where the
application stands, not where Spark's checkpoint does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bus.security.java_config import NotTranslatable, java_config
from bus.settings import BusSettings
from spark_apps.batches.message import OffsetRanges, ends_of
from spark_apps.session.session import SessionError
from spark_apps.source.positions import starting_offsets

FETCH_MAX_WAIT_MS = 5
RETRY_MS, MAX_RETRY_MS = 20, 200
"""Between two questions who leads now. With Java's 100 ms, doubled up to a second, a driver hears
of a new leader as late as some batches take."""
OFFSET_RETRY_MS, OFFSET_RETRIES = 50, 60  # the connector's three seconds, in shorter steps
POLL_BYTES = 4 << 20  # of large records that a task's consumer hands out at once
# In the order of `StreamMessage`'s first fields.
_COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "value")


def read(
    session: SparkSession,
    *,
    bus: BusSettings,
    topics: Iterable[str],
    starting_offsets: str,
    max_offsets: int,
    client_id: str,
) -> DataFrame:
    """Records with headers. What retention cut is reported by the caller, not a failure here."""
    return (
        session.readStream.format("kafka")
        .options(**_options(bus, client_id))
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", starting_offsets)
        .option("maxOffsetsPerTrigger", max_offsets)
        .load()
    )


def read_range(
    session: SparkSession,
    offsets: OffsetRanges,
    record_bytes: int,
    *,
    bus: BusSettings,
    client_id: str,
) -> DataFrame:
    """The records of these ranges, which have passed through `read` without being looked at.
    `record_bytes`: of a large one."""
    nested = json.loads(starting_offsets(ends_of(offsets)))
    firsts = {partition: first for partition, (first, _) in offsets.items()}
    return (
        session.read.format("kafka")
        .options(**_options(bus, client_id))
        # A fetch is bounded as it is on the wire: 500 compressed records were 250 MB of heap.
        .option("kafka.max.poll.records", min(500, max(1, POLL_BYTES // record_bytes)))
        .option("assign", json.dumps({t: list(map(int, some)) for t, some in nested.items()}))
        .option("startingOffsets", starting_offsets(firsts))
        .option("endingOffsets", json.dumps(nested))
        .load()
    )


def _options(bus: BusSettings, client_id: str) -> dict[str, str]:
    return {
        **connector_security(bus),
        "kafka.bootstrap.servers": bus.bootstrap_servers,
        "kafka.client.id": client_id,
        "includeHeaders": "true",
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
        # The connector asks for offsets over the connection on which a fetch may be waiting for
        # records: with Kafka's 500 ms a batch of a sparse topic took 1.6 s. It fetches only while a
        # task runs, so that a short wait costs nothing in between.
        "kafka.fetch.max.wait.ms": str(FETCH_MAX_WAIT_MS),
        **{f"kafka.{what}.backoff.ms": str(RETRY_MS) for what in ("retry", "reconnect")},
        **{f"kafka.{what}.backoff.max.ms": str(MAX_RETRY_MS) for what in ("retry", "reconnect")},
        "fetchOffset.retryIntervalMs": str(OFFSET_RETRY_MS),
        "fetchOffset.numRetries": str(OFFSET_RETRIES),
    }


def connector_security(bus: BusSettings) -> dict[str, str]:
    """How the bus is reached, as options of the connector; PEM files are read here, in the driver.

    Raises `SessionError` for a file that cannot be read.
    """
    try:
        java = java_config(bus.librdkafka, bus.java, _text_of)
    except (OSError, UnicodeDecodeError, NotTranslatable) as error:
        raise SessionError(f"bus: {error}") from error
    return {f"kafka.{key}": value for key, value in java.items()}


def _text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def select_columns(messages: DataFrame, *, headers: bool) -> DataFrame:
    """What `message.messages_of` reads. Headers are selected whole: picking seven of them out by
    SQL cost more than everything else Spark did with a record."""
    return messages.selectExpr(*_COLUMNS, *(("headers",) if headers else ()))
