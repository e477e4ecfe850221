"""The columns the quality application needs. In/out: DataFrames. Never: a session, I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_apps.columns import flat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transform(messages: DataFrame) -> DataFrame:
    """Position, time and value."""
    return flat(messages, headers=False)
