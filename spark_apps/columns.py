"""The columns every application takes from Kafka's source.

In: the DataFrame of Spark's Kafka source. Out: a DataFrame that `message.messages_of` reads.
Never: a session, I/O. Headers travel as they are: picking seven of them out by SQL cost more than
everything else Spark did with a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE_TIME_VALUE = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp_ms",
    "value",
)
HEADERS = "headers"


def flat(messages: DataFrame, *, headers: bool) -> DataFrame:
    """Place, time and value, and the headers for those who ask."""
    return messages.selectExpr(*PLACE_TIME_VALUE, *((HEADERS,) if headers else ()))
