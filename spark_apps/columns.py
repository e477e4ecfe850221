"""The columns every application takes from Kafka's source: flat, so that Arrow carries them
cheaply.

In: the DataFrame of Spark's Kafka source with headers. Out: a DataFrame of plain columns.
Never: a session, I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITION = ("topic", "partition", "offset")
MESSAGE = ("unix_millis(timestamp) AS timestamp_ms", "value")


def header(name: str) -> str:
    """The SQL of one header as text under its name with underscores; null where it is missing."""
    found = f"get(filter(headers, h -> h.key = '{name}'), 0).value"
    return f"cast({found} AS string) AS {name.replace('-', '_')}"


def flat(messages: DataFrame, headers: tuple[str, ...] = ()) -> DataFrame:
    """Position, time, value and the named headers."""
    return messages.selectExpr(*POSITION, *MESSAGE, *(header(name) for name in headers))
